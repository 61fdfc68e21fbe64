#include "harness/front/launch/worker_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "harness/front/launch/exit_code.h"
#include "harness/front/process/capture.h"
#include "harness/front/text/paths.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/gpu_survey.h"
#include "harness/report/machine/plugin_owner.h"
#include "harness/report/record/find_run.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

constexpr double library_answer_s = 60;  // limit for a worker that no Python interpreter hosts

// Returns the files of dpbench's Python package that register this strategy of PyTorch's (py-ddp and others). Only
// these files are loaded, because importing the PyTorch modules of all files takes seconds. For an unknown name that
// begins with "py-", returns all files, so that the error can suggest a correct name.
std::set<std::string> files_of_pytorchs(const fs::path& worker, const std::string& strategy) {
  if (!strategy.starts_with("py-")) return {};
  std::set<std::string> all, found;
  for (const auto& entry : fs::directory_iterator(shipped_file(worker, ""))) {
    const std::string file = entry.path();
    if (!is_python(file) || !entry.path().filename().string().starts_with("pytorch")) continue;
    all.insert(file);
    if (read_text(file, 1 << 20).find("strategy(\"" + strategy + "\"") != std::string::npos) found.insert(file);
  }
  return found.empty() ? all : found;
}

Catalogue parse_catalogue(const std::string& text, const std::string& what) {
  return name_file_in_errors(what, [&] { return catalogue_from_json(parse_json(text, what)); });
}

fs::path catalogue_file(const fs::path& worker) { return worker.parent_path() / "catalogue.json"; }

Catalogue read_catalogue_file(const fs::path& worker) {
  const fs::path file = catalogue_file(worker);
  std::ifstream in(file);
  if (!in) throw UsageError("no " + file.string() + ". Build dpbench-worker again");
  std::ostringstream text;
  text << in.rdbuf();
  return parse_catalogue(text.str(), file.string());
}

bool has_gpu() { return !survey_gpus().accelerators.gpus.empty(); }

// Completes the catalogue of a worker started with --no-cuda, which cannot list the backends of the CUDA library. Takes
// those backends, and the list of optional components that were not built, from the catalogue file written at build
// time.
Catalogue with_cuda_as_built(const Catalogue& asked, const fs::path& worker) {
  if (::access(catalogue_file(worker).c_str(), R_OK) != 0) return asked;
  Json all = asked.document;
  const Catalogue written = read_catalogue_file(worker);
  for (const Json& backend : written.document.at("backends"))
    if (!backend.at("cpu").get<bool>() && !find_entry(asked.backends, backend.at("name")))
      all["backends"].push_back(backend);
  all["not_built"] = written.document.at("not_built");
  return catalogue_from_json(all);
}

fs::path find_program(const std::vector<fs::path>& places, const std::string& what) {
  std::vector<std::string> tried;
  for (const auto& place : places) {
    if (::access(place.c_str(), X_OK) == 0 && !fs::is_directory(place)) return fs::canonical(place);
    tried.push_back(place.lexically_normal());
  }
  throw UsageError("no dpbench-worker at " + join(tried, " or ") + what);
}

// `said` is the output of a worker that ended with exit_usage. Throws UsageError with the line in which the worker
// names the error. Prints the other lines first: the output and traceback of the user's file. Does nothing if no line
// names an error.
void throw_usage_error(const std::string& said) {
  constexpr std::string_view speaker = "dpbench-worker: ";
  std::string error, others;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);)
    if (error.empty() && line.starts_with(speaker))
      error = line.substr(speaker.size());
    else
      others += line + "\n";
  if (error.empty()) return;
  std::fputs(sanitised(others).c_str(), stderr);
  throw UsageError(one_line(error, 2048));
}

// Returns the absolute path of a plug-in file. Throws UsageError unless it is a regular file that only this user and
// root can modify, and its path has no ':'.
fs::path checked_plugin(const std::string& file) {
  const std::string shown = "--plugin '" + one_line(file, 200) + "'";
  std::error_code failed;
  const fs::path path = fs::canonical(file, failed);
  if (failed || !fs::is_regular_file(path, failed)) throw UsageError(shown + ": no such file");
  if (path.string().find(':') != std::string::npos) throw UsageError(shown + ": the path must not contain ':'");
  if (const auto fault = fault_of_plugin(path)) throw UsageError(shown + ": " + describe(*fault));
  return path;
}

// Starts the worker program with the arguments `words` and the plug-ins, and returns its stdout. Throws UsageError with
// the worker's output if the worker fails.
std::string ask_worker(const fs::path& worker, const std::vector<std::string>& words,
                       const std::vector<std::string>& plugins, const PythonHost& host, double answer_s,
                       bool with_cuda) {
  const bool hosted = !host.interpreter.empty();
  Program program{
      .path = hosted ? host.interpreter : worker.string(), .arguments = host.arguments, .variables = {}, .cpus = {}};
  program.arguments.insert(program.arguments.end(), words.begin(), words.end());
  for (const auto& plugin : plugins) program.arguments.insert(program.arguments.end(), {"--plugin", plugin});
  // Capture the worker's stderr in a memfd, which needs no writable directory.
  const Fd errors(::memfd_create("dpbench-catalogue", MFD_CLOEXEC));
  check(static_cast<bool>(errors), "memfd_create failed");
  program.errors = errors.get();
  // --no-cuda must be the last argument: older workers read arguments in pairs and ignore an unpaired last one.
  if (!with_cuda) program.arguments.emplace_back("--no-cuda");
  const double limit_s = hosted ? answer_s : library_answer_s;
  const Captured captured = run_and_capture(program, limit_s);
  if (captured.status == 0) return captured.output;
  std::string said(65536, '\0');
  said.resize(static_cast<size_t>(std::max<ssize_t>(::pread(errors.get(), said.data(), said.size(), 0), 0)));
  if (WIFEXITED(captured.status) && WEXITSTATUS(captured.status) == exit_usage) throw_usage_error(said);
  if (captured.late && hosted)
    throw UsageError("--plugin: " + host.interpreter + " did not list the strategies and workloads within " +
                     std::to_string(std::lround(limit_s)) +
                     " s. If it needs longer, raise --timeout. Its output: " + one_line(said, 2048));
  throw UsageError((plugins.empty() ? std::string("the worker fails") : "--plugin: the worker fails with it") + " (" +
                   describe_exit(captured.status) + "): " + one_line(said, 2048));
}

}  // namespace

fs::path find_worker() {
  std::vector<fs::path> places;
  if (const char* named = std::getenv("DPBENCH_WORKER"); named && *named)
    places = {absolute_path("DPBENCH_WORKER", named)};
  else {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    places = {here / "dpbench-worker", here / "../libexec/dpbench/dpbench-worker"};
  }
  return find_program(places, ". Build it, or set DPBENCH_WORKER");
}

fs::path worker_of_build(const std::string& build) {
  std::error_code failed;
  const fs::path given = fs::absolute(build, failed);
  const fs::file_status status = failed ? fs::file_status() : fs::status(given, failed);
  if (failed) throw UsageError("'" + one_line(build, 200) + "': " + failed.message());
  const fs::path name = "dpbench-worker", built = fs::path("build/release/bin") / name,
                 installed = fs::path("libexec/dpbench") / name;
  if (fs::is_directory(status))
    return find_program({given / name, given / "bin" / name, given / installed, given / built}, ". Build it");
  if (given.filename() == name) return find_program({given}, " that can be executed");
  const fs::path here = fs::canonical(given).parent_path();
  return find_program({here / name, here / ".." / installed, here / ".." / built}, ". Build it");
}

void settle_plugins(Selection& what, const fs::path& worker) {
  for (auto& plugin : what.plugins) plugin = checked_plugin(plugin);
  std::set<std::string> files = files_of_pytorchs(worker, what.reference.strategy);
  for (const auto& strategy : what.strategies) files.merge(files_of_pytorchs(worker, strategy));
  what.plugins.insert(what.plugins.end(), files.begin(), files.end());
  const size_t colon = what.model.find(':');
  if (colon == std::string::npos) return;
  if (!what.workloads.empty())
    throw UsageError("--model " + one_line(what.model, 200) + " is a workload itself: leave out --workload");
  what.plugins.push_back(shipped_file(worker, "module_model.py"));
  what.workloads = {what.model.substr(colon + 1)};
  // The worker's module_model.py imports the model that DPBENCH_MODEL names.
  ::setenv("DPBENCH_MODEL", what.model.c_str(), 1);
  what.model.clear();
}

Catalogue query_catalogue(const fs::path& worker, const std::vector<std::string>& plugins, const PythonHost& host,
                          double answer_s) {
  const bool gpu = has_gpu();
  const Catalogue asked =
      parse_catalogue(ask_worker(worker, {"--catalogue"}, plugins, host, answer_s, gpu), "the worker's catalogue");
  return gpu ? asked : with_cuda_as_built(asked, worker);
}

Json query_parameters(const fs::path& worker, const std::string& workload, const std::string& model,
                      const std::vector<std::string>& plugins, const std::string& python, double answer_s) {
  return parse_json(ask_worker(worker, {"--parameters", workload, model}, plugins,
                               find_python_host(worker, plugins, python), answer_s, /*with_cuda=*/false),
                    "the worker's list of parameters");
}

std::vector<std::string> query_refusals(const fs::path& worker, const std::vector<std::string>& choices,
                                        const std::vector<std::string>& plugins, const std::string& python,
                                        double answer_s) {
  std::vector<std::string> words = {"--refusals"};
  words.insert(words.end(), choices.begin(), choices.end());
  const Json answer = parse_json(ask_worker(worker, words, plugins, find_python_host(worker, plugins, python), answer_s,
                                            /*with_cuda=*/false),
                                 "the worker's list of refused parameter values");
  if (answer.size() != choices.size())
    throw UsageError("the worker does not answer for each choice of parameter values. Build it again");
  std::vector<std::string> reasons;
  for (const Json& reason : answer)
    reasons.push_back(reason.is_string() ? one_line(reason.get<std::string>(), 500) : "");
  return reasons;
}

std::string torch_of(const fs::path& worker) { return read_catalogue_file(worker).torch; }

Catalogue load_catalogue(const fs::path& worker, const std::vector<std::string>& plugins, const std::string& python,
                         double answer_s) {
  if (std::ranges::any_of(plugins, is_python))
    return query_catalogue(worker, plugins, find_python_host(worker, plugins, python), answer_s);
  if (!plugins.empty()) return query_catalogue(worker, plugins);
  const Catalogue written = read_catalogue_file(worker);
  // A CUDA library that could not be loaded at build time may load now. So query the worker instead of the file if
  // there is a GPU.
  const bool may_be_stale = !written.cuda.empty() && !written.not_built.empty();
  return may_be_stale && has_gpu() ? query_catalogue(worker, {}) : written;
}

}  // namespace dpbench
