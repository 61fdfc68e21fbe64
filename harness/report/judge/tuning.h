// Chooses the fastest parameter values of a strategy. Each case is measured in pairs of blocks with its reference, the
// same strategy with its default values. After each launch the faster half of the candidates stays. The last one is
// judged by further launches alone, because the earlier ones, by which it was selected, are biased in its favour.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns which cases the next launch measures: the reference of each setting, and the faster half of its candidates.
std::vector<size_t> faster_half(const Report& report, const std::vector<size_t>& which);
// True if no setting has more than one candidate among `which`.
bool one_is_left(const Report& report, const std::vector<size_t>& which);

// The candidate that is left in a setting.
struct Tuned {
  const CaseRecord* best;
  double speedup = 0, low = 0, high = 0;  // over the default values, with its 95 % interval
  int launches = 0;
  bool faster() const { return low > 1; }
};
// Returns the candidate of each setting that was measured from the launch `first` on, judged by those launches alone.
std::vector<Tuned> tuned(const Report& report, int first);
// Tells in a line what to use.
std::string tuned_text(const Tuned& tuned);

}  // namespace dpbench
