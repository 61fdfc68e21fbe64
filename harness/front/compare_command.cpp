// dpbench compare: the gate on stored reports.
#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>

#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/table.h"
#include "harness/front/text.h"
#include "harness/report/compare_output.h"
#include "harness/report/find_run.h"
#include "harness/report/to_type.h"
#include "harness/report/validate.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

Gate gate_of(const StoredRuns& asked) {
  if (asked.gate.empty()) return make_gate(asked.fail_on);
  if (!asked.fail_on.empty()) throw UsageError("--gate and --fail-on: give one (a gate file holds the rules of both)");
  return read_gate(asked.gate);
}

std::string output_of(const Comparison& comparison, const std::string& form) {
  const std::string summary = compare_summary(comparison) + "\n";
  if (form == "json") return compare_json(comparison).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (form == "markdown") return as_markdown(compare_rows(comparison)) + "\n" + summary;
  auto rows = compare_rows(comparison);
  for (auto& row : rows)
    for (auto& cell : row) cell = one_line(cell, 160);
  return aligned(rows, compare_columns_right()) + summary;
}

// Reading is most of the time: both at once, if a thread can be had. But larger ones in turn: each may need 3 * 24 times its bytes, and
// both together no more than 3 GiB.
std::launch how_to_read(const std::filesystem::path& base, const std::filesystem::path& now) {
  constexpr uintmax_t small = uintmax_t{20} << 20;
  std::error_code unknown;  // then it is the largest number
  const bool both_small = std::filesystem::file_size(base, unknown) <= small && std::filesystem::file_size(now, unknown) <= small;
  return both_small ? std::launch::async | std::launch::deferred : std::launch::deferred;
}

bool annotates(const std::string& choice) {
  const char* on_github = std::getenv("GITHUB_ACTIONS");
  return choice == "github" || (choice == "auto" && on_github && !std::strcmp(on_github, "true"));
}

}  // namespace

int compare_command(const Options& options) {
  const StoredRuns& asked = options.stored;
  if (asked.runs.size() != 2)
    throw UsageError("compare takes two runs: " + to_type("compare BASE NEW") + " (as in: compare main latest)");
  const Gate gate = gate_of(asked);
  const auto now = find_run(asked.runs[1], asked.results);
  if (!asked.require_baseline && is_unsaved_baseline(asked.runs[0], asked.results)) {
    read_report(now);
    std::cerr << "dpbench: no baseline '" << sanitised(asked.runs[0]) << "' yet in " << asked.results
              << ": nothing to compare (" << to_type("run --save-baseline " + sanitised(asked.runs[0]))
              << "; --require-baseline makes this an error)\n";
    return 0;
  }
  const auto before = find_run(asked.runs[0], asked.results);
  auto base = std::async(how_to_read(before, now), read_sound_report, before);
  const Report newer = read_sound_report(now);
  const Comparison comparison = compare(base.get(), newer, gate, asked.allow_env_diff);
  for (const auto& note : compare_notes(comparison)) std::cerr << "dpbench: " << sanitised(note) << '\n';
  if (annotates(asked.annotations))
    for (const auto& line : github_annotations(comparison)) std::cerr << sanitised(line) << '\n';
  return exit_code({.unsaved = !print(output_of(comparison, options.output)),
                    .wrong = comparison.failed(),
                    .inconclusive = asked.strict && comparison.inconclusive()});
}

}  // namespace dpbench
