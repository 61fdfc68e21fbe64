#include "strategies/pipeline/options.h"

#include <algorithm>

#include "strategies/schedule/lower.h"
#include "strategies/schedule/verify.h"
#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

// True if the schedule splits backward passes into input gradients and weight gradients, which no strategy runs.
bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const auto& actions) {
    return std::ranges::any_of(actions, [](const Action& action) { return action.kind == Kind::input_gradient; });
  });
}

int64_t at_least_one(const Params& params, const std::string& name) {
  const int64_t value = params.integer(name);
  if (value < 1) throw UsageError(params.owner() + "." + name + "=" + params.text(name) + " must be 1 or more");
  return value;
}

}  // namespace

std::vector<ParamInfo> parameters() {
  return {{"schedule", "1f1b", "order of forward and backward passes", "gpipe|1f1b|interleaved"},
          {"stages", "1", "stages of each rank; interleaved: at least 2, which is then the default", "integer"},
          {"microbatches", "1", "parts into which each micro-batch of a step (--accumulate) is cut", "integer"},
          {"blocks", "even", "blocks of each stage, such as 2+3+1"},
          {"poison", "off", "fill received tensors with NaN until they arrive, for tests"}};
}

Options options_of(const Params& params) {
  Options options{.owner = params.owner(),
                  .family = find_family(params.text("schedule")),
                  .stages = static_cast<int>(at_least_one(params, "stages")),
                  .microbatches = at_least_one(params, "microbatches"),
                  .blocks = params.text("blocks") == "even" ? "" : params.text("blocks"),
                  .poison = params.flag("poison")};
  if (!options.family)
    throw UsageError(options.owner + ".schedule=" + params.text("schedule") + ": there is no such schedule");
  options.stages = std::max(options.stages, options.family->least_chunks);
  if (options.stages > options.family->most_chunks)
    throw UsageError(options.owner + ".stages=" + params.text("stages") + ": " + options.family->name +
                     " has at most " + std::to_string(options.family->most_chunks) + " for each rank");
  return options;
}

std::vector<int> Schedules::rank_of_stages() const {
  return make_schedule(*options_.family, {.ranks = ranks_, .chunks = options_.stages, .microbatches = ranks_}).rank_of;
}

const Schedule& Schedules::of(int microbatches) {
  const auto known = made_.find(microbatches);
  if (known != made_.end()) return known->second;
  Schedule schedule =
      make_schedule(*options_.family, {.ranks = ranks_, .chunks = options_.stages, .microbatches = microbatches});
  if (splits_backward(schedule))
    throw UsageError(options_.owner + ".schedule=" + options_.family->name +
                     " has backward passes in two parts, which " + options_.owner + " does not run");
  return made_.emplace(microbatches, lower(schedule)).first->second;
}

}  // namespace dpbench::pipeline
