// dpbench compare: compares a new stored run with a base run and fails on regressions, as a CI gate.
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/run/table.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/judge/compare_output.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "harness/report/validate/validate.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

enum class Annotations { automatic, github, none };

}  // namespace

template <>
inline constexpr auto enum_names<Annotations> = std::to_array<std::string_view>({"auto", "github", "none"});

namespace {

struct CompareOptions {
  StoredRuns stored;  // the two runs to compare: base, then new
  std::vector<std::string> fail_on;
  std::string gate;
  bool strict = false, require_baseline = false, allow_env_diff = false;
  Annotations annotations = Annotations::automatic;
  Form output = Form::table;
};

void add_flags(CLI::App& app, CompareOptions& o) {
  add_runs(app, o.stored,
           "base, then new: a run.json, a run's or results directory, latest,\nlatest~1, a baseline's name");
  app.get_option("runs")->type_name("BASE NEW");
  const auto grouped = in_group("Gate");
  grouped(add_values(app, "--fail-on", o.fail_on,
                     "median, p99, throughput, peak-memory, ratio-to-baseline: percent;\nefficiency: points; "
                     "absolute: 'median:<0.5ms' [median:5%]"),
          "FIGURE:LIMIT,..");
  grouped(app.add_option("--gate", o.gate, "rules per case, as JSON"), "FILE");
  grouped(app.add_flag("--strict", o.strict, "exit 4 when a case is unclear"), "");
  grouped(app.add_flag("--require-baseline", o.require_baseline, "fail if the base was never saved"), "");
  grouped(app.add_flag("--allow-env-diff", o.allow_env_diff, "compare even if machines or configurations differ"), "");
  add_named<Annotations>(app, "--annotations", o.annotations, "lines for GitHub's pages, on stderr [auto]")
      ->group("Gate");
  add_output(app, o.output, {Form::table, Form::markdown, Form::json});
}

Gate gate_of(const CompareOptions& options) {
  if (options.gate.empty()) return make_gate(options.fail_on);
  if (!options.fail_on.empty())
    throw UsageError("--gate and --fail-on exclude each other. A gate file can hold the rules of both");
  return read_gate(options.gate);
}

std::string output_of(const Comparison& comparison, Form form) {
  return form == Form::json
             ? json_text(compare_json(comparison))
             : judgement_text(compare_rows(comparison), compare_columns_right(), compare_summary(comparison), form);
}

// Returns the launch policy of std::async for reading the two reports. Reports of at most 20 MiB are read in parallel
// if a thread can be started, because reading takes most of the command's time. Larger ones are read in sequence to
// save memory: parsing a report may need 72 times its size.
std::launch read_policy(const std::filesystem::path& base, const std::filesystem::path& now) {
  constexpr uintmax_t small = uintmax_t{20} << 20;
  // If the size of a file is unknown, file_size() returns the largest uintmax_t, so the file counts as large.
  std::error_code unknown;
  const bool both_small =
      std::filesystem::file_size(base, unknown) <= small && std::filesystem::file_size(now, unknown) <= small;
  return both_small ? std::launch::async | std::launch::deferred : std::launch::deferred;
}

bool annotates(Annotations mode) {
  const char* on_github = std::getenv("GITHUB_ACTIONS");
  return mode == Annotations::github ||
         (mode == Annotations::automatic && on_github && !std::strcmp(on_github, "true"));
}

// Prints a comparison with its notes and annotations. Returns the exit code.
int print_comparison(const Comparison& comparison, const CompareOptions& options) {
  for (const auto& note : compare_notes(comparison)) std::cerr << "dpbench: " << sanitised(note) << '\n';
  if (annotates(options.annotations))
    for (const auto& line : github_annotations(comparison)) std::cerr << sanitised(line) << '\n';
  return exit_code({.unsaved = !print(output_of(comparison, options.output)),
                    .wrong = comparison.failed(),
                    .inconclusive = options.strict && comparison.inconclusive()});
}

// Judges a run by the gate's absolute limits alone, because the baseline to compare with was never saved. Passes if the
// gate has no such limits.
int judge_without_baseline(const Report& newer, const Gate& gate, const CompareOptions& options) {
  const auto& [runs, results] = options.stored;
  std::cerr << "dpbench: no baseline '" << sanitised(runs[0]) << "' in " << results << " yet, "
            << (gate.has_limits() ? "only absolute limits are judged (" : "nothing to compare (")
            << shell_command("run --launches 5 --save-baseline " + sanitised(runs[0]))
            << "; --require-baseline makes this an error)\n";
  if (!gate.has_limits()) return 0;
  Comparison comparison = judge_limits(newer, gate);
  comparison.base_id = runs[0];
  return print_comparison(comparison, options);
}

int compare_runs(const CompareOptions& options) {
  const auto& [runs, results] = options.stored;
  if (runs.size() != 2)
    throw UsageError("compare takes two runs: " + shell_command("compare BASE NEW") +
                     " (for example: compare main latest)");
  const Gate gate = gate_of(options);
  const auto now = find_run(runs[1], results);
  if (!options.require_baseline && is_unsaved_baseline(runs[0], results))
    return judge_without_baseline(read_consistent_report(now), gate, options);
  const auto before = find_run(runs[0], results);
  auto base = std::async(read_policy(before, now), read_consistent_report, before);
  const Report newer = read_consistent_report(now);
  return print_comparison(compare(base.get(), newer, gate, options.allow_env_diff), options);
}

}  // namespace

Command compare_command() {
  return reading_command(
      {.name = "compare",
       .arguments = "BASE NEW [FLAGS]",
       .summary = "judge one stored run against another: the gate",
       .examples = {{"compare main latest --fail-on median:5%", "exit 1 if a case is more than 5 % slower"},
                    {"compare main latest --fail-on 'median:<0.5ms,peak-memory:<2GiB'", "exit 1 beyond a limit"},
                    {"compare main latest --gate gate.json --strict", "limits per case; exit 4 if unclear"}},
       .exit_codes = {1, 4}},
      add_flags, compare_runs);
}

}  // namespace dpbench
