#include <algorithm>
#include <vector>

#include "harness/forecast/predict.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::forecast {
namespace {

// The blocks of one rank, and its micro-batches between forward and backward pass.
struct RankBlocks {
  gpt::Stage stage{.layers = 0, .embed = false, .head = false};
  int live = 1;
};

std::vector<RankBlocks> ranks_of_pipeline(const gpt::Shape& shape, const Layout& layout) {
  const std::vector<StageBlocks> stages = stages_of(shape, layout);
  if (!layout.schedule) return {{.stage = {.layers = shape.layers}}};
  const pipeline::Schedule schedule = schedule_of(layout);
  std::vector<RankBlocks> ranks(schedule.ranks.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    RankBlocks& rank = ranks[static_cast<size_t>(schedule.rank_of[i])];
    rank.stage.layers += stages[i].layers;
    rank.stage.embed |= stages[i].embed;
    rank.stage.head |= stages[i].head;
  }
  // A rank with several stages keeps activations of some of them.
  for (size_t i = 0; i < ranks.size(); ++i)
    ranks[i].live = std::max(1, (pipeline::live_activations(schedule.ranks[i]) + layout.stages - 1) / layout.stages);
  return ranks;
}

double stored_bytes(gpt::Precision precision) { return precision == gpt::Precision::float64 ? 8 : 4; }

// Bytes of the largest block's parameters, and of all blocks outside of layers.
double largest_unit(const gpt::Shape& shape, const Layout& layout, double size) {
  double most = 0;
  for (const gpt::Part part : {gpt::Part::embed, gpt::Part::layer, gpt::Part::head})
    most = std::max(most, size * static_cast<double>(gpt::parameters(shape, part, layout.cut())));
  return most;
}

// Divides what is sharded, and adds buffers of gathered parameters and of gradients before their reduction.
Memory sharded(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const RankBlocks& rank,
               const gpt::StepMemory& whole) {
  const double shards = layout.shards();
  Memory memory{.parameters = whole.parameters,
                .gradients = whole.gradients,
                .state = whole.state,
                .activations = whole.activations + whole.workspace};
  if (layout.sharding == Sharding::replicated) {
    // ddp keeps its buckets, of which the gradients are views.
    if (layout.overlapped) memory.gradients = memory.parameters;
    // Elsewhere, gradients are copied into one tensor to be summed after the backward passes.
    const bool summed = !layout.overlapped && layout.size("dp") * layout.size("cp") > 1;
    const Memory end{.parameters = memory.parameters,
                     .gradients = memory.parameters,
                     .state = memory.state,
                     .buffers = summed ? memory.parameters : 0};
    return end.total() > memory.total() ? end : memory;
  }
  memory.state /= shards;
  if (layout.sharding == Sharding::state) {
    memory.gradients = memory.parameters;             // in flat buffers that stay
    memory.buffers = 2 * memory.parameters / shards;  // copies of the own piece and of its gradient
    return memory;
  }
  const double size = stored_bytes(precision), unit = largest_unit(shape, layout, size);
  const double layer = size * static_cast<double>(gpt::parameters(shape, gpt::Part::layer, layout.cut()));
  memory.gradients /= shards;
  memory.buffers = unit;  // gradients of one unit before their reduction
  if (layout.sharding == Sharding::gradients) {
    memory.buffers += memory.parameters / shards;
    return memory;
  }
  const double narrow = layout.narrow ? 0.5 : 1;
  const double root = rank.stage.embed || rank.stage.head ? unit : 0;  // stays gathered
  const double gathered = layout.reshard ? root + 2 * layer : memory.parameters;
  memory.parameters /= shards;
  memory.buffers += narrow * std::min(gathered, whole.parameters);
  return memory;
}

}  // namespace

Memory memory_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout) {
  Memory most;
  for (const RankBlocks& rank : ranks_of_pipeline(shape, layout)) {
    if (!rank.stage.embed && !rank.stage.head && rank.stage.layers == 0) continue;  // the norm alone
    const gpt::Step step{.rows = static_cast<double>(layout.rows),
                         .micro_batches = static_cast<int>(layout.micro_batches),
                         .live = std::min<int>(rank.live, static_cast<int>(layout.micro_batches)),
                         .recompute = layout.recompute,
                         .last_output = false};
    const gpt::StepMemory whole = gpt::step_memory(shape, rank.stage, layout.cut(), precision, step);
    const Memory memory = sharded(shape, precision, layout, rank, whole);
    if (memory.total() > most.total()) most = memory;
  }
  return most;
}

}  // namespace dpbench::forecast
