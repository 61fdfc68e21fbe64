#include "harness/worker/recording.h"

#include <set>

namespace dpbench {
namespace {

constexpr int64_t until_replayed = 4;  // StrategyInfo::recorded: three of a shape that run as they are, and one that records

}  // namespace

std::vector<int64_t> recording_steps(const CaseSpec& spec, const StepSource& source) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  if (!promised(info, Params(info.params, spec.params, spec.strategy)).recorded) return {};
  std::vector<int64_t> steps;
  std::set<int64_t> sizes;  // of all ranks together: each rank's own follow from them
  for (int64_t step = 0; step < source.steps_per_epoch(); ++step)
    if (sizes.insert(source.rows(step, 1)).second) steps.insert(steps.end(), until_replayed, step);
  return steps;
}

}  // namespace dpbench
