#include "strategies/pipeline/options.h"

#include <algorithm>
#include <stdexcept>

#include "strategies/parts/same_lines.h"
#include "strategies/pipeline/stages.h"
#include "strategies/schedule/csv.h"
#include "strategies/schedule/lower.h"
#include "strategies/schedule/verify.h"
#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

constexpr char no_file[] = "none", balanced_blocks[] = "balanced";

// Reads and verifies the schedule of the user's file; nullopt if there is no file. Keeps only computations, sends and
// receives. Other actions are not needed: the strategy sums gradients after the schedule by itself, and the parameter
// reshard decides when parameters are freed.
std::optional<Schedule> given_schedule(const Params& params) {
  const std::string& path = params.text("file");
  if (path == no_file) return std::nullopt;
  const std::string name = params.owner() + ".file";
  if (params.text("schedule") != Options().family->name || params.integer("stages") != 1)
    throw UsageError(name + ": the file gives the schedule and the stages, so leave out " + params.owner() +
                     ".schedule and " + params.owner() + ".stages");
  Schedule schedule = read_csv_file(path, path);
  for (auto& list : schedule.ranks) std::erase_if(list, [](const Action& one) { return !has_microbatch(one.kind); });
  if (std::ranges::any_of(schedule.ranks, &std::vector<Action>::empty))
    throw UsageError(name + "=" + path + ": a line, which stands for a rank, has no computations");
  if (const std::vector<Fault> faults = verify(schedule); !faults.empty())
    throw UsageError(name + "=" + path + ": " + text_of(faults.front()) + ". See dpbench schedule " + path);
  return schedule;
}

int64_t at_least_one(const Params& params, const std::string& name) {
  const int64_t value = params.integer(name);
  if (value < 1) throw UsageError(params.owner() + "." + name + "=" + params.text(name) + " must be 1 or more");
  return value;
}

}  // namespace

std::vector<ParamInfo> parameters() {
  return {{"schedule", "1f1b", "order of forward and backward passes", "gpipe|1f1b|interleaved|zb-h1|zb-h2|zbv"},
          {"file", no_file, "CSV file of a schedule, instead of a built-in one"},
          {"stages", "1", "stages of each rank; interleaved: at least 2, zbv: 2, which is then the default",
           "integer from 1"},
          {"microbatches", "1", "parts into which each micro-batch of a step (--accumulate) is cut", "integer from 1"},
          {"blocks", balanced_blocks, "blocks of each stage, such as 2+3+1; balanced: stages of about equal FLOP"},
          {"poison", "off", "for tests: NaN in received tensors until they arrive, and in sent copies afterwards"}};
}

Options options_of(const Params& params) {
  Options options{.owner = params.owner(),
                  .family = find_family(params.text("schedule")),
                  .given = given_schedule(params),
                  .stages = static_cast<int>(at_least_one(params, "stages")),
                  .microbatches = at_least_one(params, "microbatches"),
                  .blocks = params.text("blocks") == balanced_blocks ? "" : params.text("blocks"),
                  .poison = params.flag("poison")};
  if (!options.family)
    throw UsageError(options.owner + ".schedule=" + params.text("schedule") + ": there is no such schedule");
  if (!options.blocks.empty()) parse_sizes(options.blocks, options.owner);  // throws UsageError
  options.stages = std::max(options.stages, options.family->least_chunks);
  if (options.stages > options.family->most_chunks)
    throw UsageError(options.owner + ".stages=" + params.text("stages") + ": " + options.family->name +
                     " has at most " + std::to_string(options.family->most_chunks) + " for each rank");
  return options;
}

Schedules::Schedules(const Options& options, int ranks) : options_(options), ranks_(ranks) {
  if (options_.given && options_.given->world() != ranks_)
    throw UsageError(options_.owner + ".file=" + options_.given->name + " has " +
                     std::to_string(options_.given->world()) + " lines, one for each rank, but the axis pp has " +
                     std::to_string(ranks_) + (ranks_ == 1 ? " rank" : " ranks"));
}

Schedule Schedules::computations_of(int microbatches) const {
  if (!options_.given)
    return make_schedule(*options_.family, {.ranks = ranks_, .chunks = options_.stages, .microbatches = microbatches});
  if (options_.given->microbatches != microbatches)
    throw UsageError(options_.owner + ".file=" + options_.given->name + " is for " +
                     std::to_string(options_.given->microbatches) + " micro-batches, and a step has " +
                     std::to_string(microbatches) + ". Set --accumulate or " + options_.owner + ".microbatches");
  return *options_.given;
}

std::vector<int> Schedules::rank_of_stages() const {
  return options_.given ? options_.given->rank_of : computations_of(ranks_).rank_of;
}

void Schedules::require_same_on_all_ranks(const Axis& axis, at::Device device) const {
  if (axis.size == 1) return;
  std::vector<std::string> lines = {"microbatches=" + std::to_string(options_.microbatches),
                                    "blocks=" + (options_.blocks.empty() ? balanced_blocks : options_.blocks)};
  // The schedules are compared for one number of micro-batches. With twice as many micro-batches as ranks, any two
  // built-in schedules differ.
  const Schedule schedule = computations_of(options_.given ? options_.given->microbatches : 2 * ranks_);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i)
      lines.push_back("rank " + std::to_string(rank) + ", action " + std::to_string(i) + ", " +
                      described(schedule.ranks[rank][i]));
  if (const auto differs = different_line(*axis.group, lines, device))
    throw std::runtime_error(options_.owner + ": rank " + std::to_string(axis.rank) + " of the axis pp has \"" +
                             differs->mine + "\" in its schedule, and rank 0 has \"" + differs->of_rank0 + "\"");
}

const Schedule& Schedules::of(int microbatches) {
  const auto known = made_.find(microbatches);
  if (known != made_.end()) return known->second;
  const Schedule schedule = computations_of(microbatches);
  return made_.emplace(microbatches, has_transfers(schedule) ? schedule : lower(schedule)).first->second;
}

}  // namespace dpbench::pipeline
