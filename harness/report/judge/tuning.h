// Chooses the fastest parameter values of a strategy. Each candidate is measured in pairs of blocks with its reference,
// the same strategy with default values. After each launch (start of the cases' processes), only the faster half of the
// candidates stays. Only later launches judge the one that is left, because the launches that selected it are biased
// toward it. The verdict is that of `duel` (duel_look) on their pairs: the default values are the base build, the
// candidate is the new one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/record/report.h"
#include "harness/report/stats/welch.h"

namespace dpbench {

// Key in the config of a report of `tune`. Its value is the number of the first launch that judges the last candidates.
inline constexpr const char* first_judged = "judged_from_launch";
// Returns the number of the first launch that judges the last candidates, as stored in a report of `tune`; nullopt for
// reports of other commands.
std::optional<int> judged_from(const Report& report);

// Returns the indices of the cases that the next launch measures: the reference of each setting (workload, devices,
// ...) and the faster half of its candidates.
std::vector<size_t> faster_half(const Report& report, const std::vector<size_t>& which);
// True if each setting (workload, devices, ...) has only one candidate left among the cases `which`.
bool one_is_left(const Report& report, const std::vector<size_t>& which);

// The candidate that is left for a setting (workload, devices, ...) at the end of the search.
struct Tuned {
  const CaseRecord *best, *reference;
  std::string id;  // case id of `best`
  double speedup = 0, low = 0, high = 0, noise = 0;
  int pairs = 0, launches = 0;
  Verdict verdict = Verdict::unclear;
  bool faster() const { return verdict == Verdict::faster; }
};

template <>
struct Table<Tuned> {
  using T = Tuned;
  static constexpr const char* name = "tuned";
  static constexpr std::tuple fields{
      Field{"case", "-", &T::id, "id of the last candidate of a setting (workload, devices, ...)", range::not_empty},
      Field{"speedup", "1", &T::speedup, "its speed-up over the default values, median over pairs of blocks",
            range::above_zero},
      Field{"low", "1", &T::low, "lower bound of the speed-up's 95 % confidence interval", range::above_zero},
      Field{"high", "1", &T::high, "upper bound of the speed-up's 95 % confidence interval", range::above_zero},
      Field{"launches", "launches", &T::launches, "launches that judged it", range::positive},
      later(Field{"pairs", "pairs", &T::pairs, "pairs of blocks in these launches; since 1.10", range::positive}),
      later(Field{"verdict", "-", &T::verdict, "verdict on it by the rules of duel; since 1.10"})};
};
// Returns for each setting (workload, devices, ...) the candidate that is left, judged only by the launches from number
// `first` on. Leaves out candidates without a pair of blocks in these launches.
std::vector<Tuned> tuned(const Report& report, int first);
// Returns one line that recommends the candidate's parameter values or the default values.
std::string tuned_text(const Tuned& tuned);
inline constexpr const char* not_tuned = "No candidate was measured often enough to judge it.";

}  // namespace dpbench
