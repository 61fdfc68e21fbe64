// dpbench report: reads and validates stored runs, a duel or a comparison, then execs the script in scripts/charts that
// draws their charts.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/text/paths.h"
#include "harness/front/text/text.h"
#include "harness/report/answer/answer.h"
#include "harness/report/answer/answer_output.h"
#include "harness/report/machine/tool.h"
#include "harness/report/record/codec.h"
#include "harness/report/record/fields.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "harness/report/validate/duel_validate.h"
#include "harness/report/validate/schema.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

struct ReportOptions {
  StoredRuns stored;
  std::string html, charts;                   // output paths of the HTML page and the charts
  std::string collectives, projection, plan;  // additional JSON input files for the HTML page
};

void add_flags(CLI::App& app, ReportOptions& o) {
  add_runs(app, o.stored, "the runs to show, or one duel.json, or the JSON of\n`compare -o json` [latest]");
  const auto grouped = in_group("Page and charts");
  grouped(app.add_option("--html", o.html, "a self-contained page with charts and tables"), "FILE");
  grouped(app.add_option("--charts", o.charts, "each chart as SVG and PNG"), "DIR");
  grouped(app.add_option("--collectives", o.collectives, "JSON of `collectives -o json` to show"), "FILE");
  grouped(app.add_option("--projection", o.projection, "JSON of `project -o json` to show"), "FILE");
  grouped(app.add_option("--plan", o.plan, "JSON of `plan -o json` to show"), "FILE");
}

constexpr size_t shown_max_bytes = size_t{64} << 20;

std::string quoted_path(const char* flag, const fs::path& path) {
  return std::string(flag) + " '" + one_line(path.string(), 200) + "'";
}

void refuse(const std::vector<std::string>& problems, const std::string& hint = "") {
  if (!problems.empty()) throw UsageError(problems.front() + hint);
}

enum class Shown { runs, duel, comparison };

constexpr int first_with_answer = 7;  // reports store an answer since version 1.7

// Reads and checks a file that `dpbench report` was asked to show. Throws UsageError with the file's name if the file
// is damaged or is neither a run nor a duel nor a comparison. Adds to `answers`, under the file's name, the answer of a
// run whose version stores none.
Shown checked_file(const fs::path& file, Json& answers) {
  const Json document = read_document(file);
  return name_file_in_errors(file, [&] {
    const std::string schema = Fields(document, "the document").get_or<std::string>("schema", "");
    const Shown kind = schema == duel_document      ? Shown::duel
                       : schema == compare_document ? Shown::comparison
                                                    : Shown::runs;
    if (kind == Shown::duel) refuse(duel_problems_of(document), ". `dpbench validate` shows all problems");
    if (kind == Shown::comparison) refuse(schema_problems(document, compare_schema()));
    if (kind != Shown::runs) return kind;
    const Report report = report_from_json(document);
    if (document.at("schema_version").at("minor") >= first_with_answer) return kind;
    if (const Answer answer = answer_of(report); compares_any(answer)) answers[file.string()] = write_value(answer);
    return kind;
  });
}

struct Checked {
  std::vector<fs::path> files;
  Json answers = Json::object();  // answers of runs that store none, by file
  bool verdict = false;           // true: `files` holds one duel or one comparison; false: runs
};

Checked checked_files(const StoredRuns& options) {
  Checked checked;
  for (const auto& run : options.runs.empty() ? std::vector<std::string>{"latest"} : options.runs) {
    const fs::path file = fs::absolute(find_run(run, options.results));
    const Shown kind = checked_file(file, checked.answers);
    if (kind != Shown::runs && options.runs.size() > 1)
      throw UsageError(file.string() + " is a " + (kind == Shown::duel ? "duel" : "comparison") +
                       ", which has a page of its own: " + shell_command("report FILE --html report.html"));
    checked.files.push_back(file);
    checked.verdict = kind != Shown::runs;
  }
  return checked;
}

// Returns the absolute path of the HTML page. Throws UsageError if the page cannot be written or would overwrite one of
// its input files.
fs::path checked_page(const std::string& file, const std::vector<fs::path>& shown) {
  const fs::path page = absolute_path("--html", file);
  const std::string flag = quoted_path("--html", file);
  std::error_code failed;
  if (!fs::is_directory(page.parent_path(), failed)) throw UsageError(flag + ": no such directory");
  if (fs::exists(page, failed) && !fs::is_regular_file(page, failed)) throw UsageError(flag + ": not a regular file");
  if (::access(page.parent_path().c_str(), W_OK) != 0) throw UsageError(flag + ": " + std::strerror(errno));
  for (const auto& run : shown)
    if (fs::equivalent(page, run, failed))
      throw UsageError(flag + ": this is one of the files to show. Use another file");
  return page;
}

fs::path checked_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!fs::is_directory(folder, failed) || ::access(folder.c_str(), W_OK) != 0)
    throw UsageError(quoted_path("--charts", folder) + ": cannot be created or written");
  return fs::absolute(folder);
}

// Returns the absolute path of an additional JSON input file. Throws UsageError unless the file has an array called
// `key`.
fs::path checked_beside(const char* flag, const std::string& file, const char* key, const std::string& otherwise) {
  try {
    const Json json = parse_json(read_text(file, shown_max_bytes), "the text");
    if (!json.is_object() || !json.contains(key) || !json.at(key).is_array())
      throw UsageError(otherwise + ": it has no \"" + key + "\"");
  } catch (const UsageError& error) {
    throw UsageError(quoted_path(flag, file) + ": " + error.what());
  }
  return fs::absolute(file);
}

// Writes JSON to a file in memory, which the script inherits. Returns its path.
std::string inherited_file(const Json& json) {
  const int file = ::memfd_create("answers", 0);
  if (file < 0) throw UsageError(std::string("no file in memory for the answers: ") + std::strerror(errno));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  std::ofstream(path) << json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return path;
}

// Returns the path of this program.
fs::path own_program() { return fs::read_symlink("/proc/self/exe"); }

// Returns the path of the chart script. Its location relative to the program is the same in a build directory and in an
// installed tree. Throws UsageError if the script is missing.
fs::path find_script() {
  const fs::path here = own_program().parent_path();
  const fs::path script = (here / "../share/dpbench/charts/report.py").lexically_normal();
  if (fs::exists(script)) return script;
  throw UsageError("no " + script.string() + ". Build or install dpbench again");
}

int draw(const ReportOptions& options) {
  if (options.html.empty() && options.charts.empty())
    throw UsageError("report needs --html FILE, --charts DIR or both: " +
                     shell_command("report latest --html report.html"));
  const auto [files, answers, verdict] = checked_files(options.stored);
  std::vector<fs::path> shown = files;
  const char* const chosen = std::getenv("DPBENCH_PYTHON");
  const std::string python = chosen && *chosen ? chosen : "python3";
  std::vector<std::string> words = {python, "-EsB", find_script(), "--version", version(), "--program", own_program()};
  std::vector<std::string> beside;
  struct Beside {
    const char* flag;
    const std::string& file;
    const char *key, *otherwise;
  };
  for (const Beside& one :
       {Beside{"--collectives", options.collectives, "benchmarks", "not Google Benchmark's JSON"},
        Beside{"--projection", options.projection, "series", "not what `dpbench project -o json` writes"},
        Beside{"--plan", options.plan, "layouts", "not what `dpbench plan -o json` writes"}}) {
    if (one.file.empty()) continue;
    if (verdict) throw UsageError(std::string(one.flag) + " is for runs. A duel or a comparison has a page of its own");
    shown.push_back(checked_beside(one.flag, one.file, one.key, one.otherwise));
    beside.insert(beside.end(), {one.flag, shown.back()});
  }
  if (!options.html.empty()) words.insert(words.end(), {"--html", checked_page(options.html, shown)});
  if (!options.charts.empty()) words.insert(words.end(), {"--charts", checked_folder(options.charts)});
  words.insert(words.end(), beside.begin(), beside.end());
  if (!answers.empty()) words.insert(words.end(), {"--answers", inherited_file(answers)});
  if (verdict) words.push_back("--verdict");
  words.insert(words.end(), files.begin(), files.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(python.c_str(), pointers.data());
  throw UsageError("Python draws the charts, and '" + one_line(python, 100) +
                   "' cannot be started: " + std::strerror(errno) + ". Install python3, or set DPBENCH_PYTHON");
}

}  // namespace

Command report_command() {
  return reading_command({.name = "report",
                          .arguments = "[RUN..] [FLAGS]",
                          .summary = "draw charts and a page of stored runs, a duel or a comparison",
                          .examples = {{"report latest --html report.html", "one page, no network needed"},
                                       {"report duel.json --html duel.html", "the verdict on top"},
                                       {"report latest --charts charts/", "each chart as SVG and PNG"}},
                          .exit_codes = {}},
                         add_flags, draw);
}

}  // namespace dpbench
