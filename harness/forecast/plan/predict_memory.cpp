#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "harness/forecast/plan/predict.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::forecast {
namespace {

// The model blocks of one rank. live: largest number of micro-batches that are between their forward and backward pass
// at once.
struct RankBlocks {
  gpt::Stage stage{.layers = 0, .embed = false, .head = false};
  int live = 1;
};

// The parts of a schedule that its memory depends on. live: for each rank, the highest number of live activations.
struct Held {
  std::vector<int> rank_of, live;
};

// Returns the same as from a new schedule. Layouts of many meshes share a schedule, which is made once.
const Held& held_by(const Layout& layout) {
  thread_local std::map<std::tuple<const pipeline::Family*, int, int, int64_t>, Held> known;
  const auto [found, is_new] =
      known.try_emplace({layout.schedule, layout.size("pp"), layout.stages, layout.micro_batches});
  if (is_new) {
    const pipeline::Schedule schedule = schedule_of(layout, layout.micro_batches);
    found->second.rank_of = schedule.rank_of;
    for (const auto& list : schedule.ranks) found->second.live.push_back(pipeline::live_activations(list));
  }
  return found->second;
}

std::vector<RankBlocks> ranks_of_pipeline(const gpt::Shape& shape, const Layout& layout) {
  if (!layout.schedule) return {{.stage = {.layers = shape.layers}}};
  const std::vector<StageBlocks> stages = stages_of(shape, layout);
  const Held& held = held_by(layout);
  std::vector<RankBlocks> ranks(held.live.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    RankBlocks& rank = ranks[static_cast<size_t>(held.rank_of[i])];
    rank.stage.layers += stages[i].layers;
    rank.stage.embed |= stages[i].embed;
    rank.stage.head |= stages[i].head;
  }
  // live_activations() counts a micro-batch once for each pipeline stage of the rank; dividing by the number of stages
  // gives the number of micro-batches.
  for (size_t i = 0; i < ranks.size(); ++i)
    ranks[i].live = std::max(1, (held.live[i] + layout.stages - 1) / layout.stages);
  return ranks;
}

// Parameter bytes of one layer, and of the largest block outside the layers (embedding or head).
struct UnitBytes {
  double layer = 0, other = 0;
  double largest() const { return std::max(layer, other); }
};

UnitBytes units_of(const gpt::Shape& shape, const Layout& layout, const gpt::Stage& stage, double size) {
  const auto bytes = [&](gpt::Part part) {
    return size * static_cast<double>(gpt::parameters(shape, part, layout.cut()));
  };
  const bool table = stage.embed || (stage.head && shape.tied);
  return {.layer = stage.layers > 0 ? bytes(gpt::Part::layer) : 0,
          .other = std::max(table ? bytes(gpt::Part::embed) : 0, stage.head ? bytes(gpt::Part::head) : 0)};
}

// Returns the peak memory with replicated tensors. Gradients that are not reduced during the backward passes are
// reduced afterwards in a copy of all gradients; then the division by the number of ranks copies one tensor at a time.
Memory replicated(const Layout& layout, Memory memory, const UnitBytes& units) {
  // DDP's gradients are views of its buckets, which stay allocated.
  if (layout.overlapped) memory.gradients = memory.parameters;
  const bool summed = !layout.overlapped && layout.size("dp") * layout.size("cp") > 1;
  const Memory end{.parameters = memory.parameters,
                   .gradients = memory.parameters,
                   .state = memory.state,
                   .buffers = summed ? memory.parameters + units.largest() : 0};
  return end.total() > memory.total() ? end : memory;
}

// Returns the peak memory with sharded tensors: divides the sharded tensors by the number of shards, and adds buffers
// for gathered parameters and unreduced gradients. after_head: bytes of activations and temporary tensors when the
// backward pass of the last layer begins.
Memory sharded(const Layout& layout, Memory memory, const UnitBytes& units, double after_head) {
  const double shards = layout.shards(), whole = memory.parameters;
  memory.state /= shards;
  if (layout.sharding == Sharding::state) {
    memory.gradients = whole;  // zero1 keeps unsharded gradients allocated, in flat buffers
    // For the update, zero1 copies the rank's shard of the parameters and of the gradients.
    memory.buffers = 2 * whole / shards;
    return memory;
  }
  const bool in_backward = memory.gradients > 0, frees = layout.sharding == Sharding::parameters;
  memory.gradients /= shards;
  if (frees) memory.parameters /= shards;
  // At the end of the forward passes, the parameters of the last block (head or layer) are gathered. During a backward
  // pass, those of two layers are gathered too, and the gradients of one layer are unsharded.
  const auto gathered = [&](double layers) {
    const double last = units.other > 0 ? units.other : units.layer;
    return frees ? std::min(layout.reshard ? last + layers * units.layer : whole, whole) * (layout.narrow ? 0.5 : 1)
                 : 0;
  };
  Memory backward = memory;
  if (!in_backward) backward.activations = after_head;
  backward.buffers = gathered(2) + units.layer;
  if (in_backward) return backward;
  memory.buffers = gathered(0);
  return backward.total() > memory.total() ? backward : memory;
}

// Returns the bytes of activations and temporary tensors when the backward pass of the last layer begins.
double after_head(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const gpt::StepMemory& whole,
                  const gpt::Stage& stage) {
  const auto rows = static_cast<double>(layout.rows);
  const gpt::Activations head = gpt::activations(shape, gpt::Part::head, layout.cut(), precision, rows);
  const gpt::Activations layer = gpt::activations(shape, gpt::Part::layer, layout.cut(), precision, rows);
  const double freed = stage.head ? head.kept + head.casts : 0, outputs = stage.head ? head.output : 0;
  return whole.activations - freed + outputs + layer.backward;
}

}  // namespace

Memory memory_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout) {
  Memory most;
  for (const RankBlocks& rank : ranks_of_pipeline(shape, layout)) {
    // Skip a pipeline rank that has only the final norm: it never has the highest peak.
    if (!rank.stage.embed && !rank.stage.head && rank.stage.layers == 0) continue;
    const gpt::Step step{.rows = static_cast<double>(layout.rows),
                         .micro_batches = static_cast<int>(layout.micro_batches),
                         .live = std::min<int>(rank.live, static_cast<int>(layout.micro_batches)),
                         .recompute = layout.recompute,
                         .last_output = false};
    const gpt::StepMemory whole = gpt::step_memory(shape, rank.stage, layout.cut(), precision, step);
    const Memory undivided{.parameters = whole.parameters,
                           .gradients = whole.gradients,
                           .state = whole.state,
                           .activations = whole.activations + whole.workspace};
    const UnitBytes units = units_of(shape, layout, rank.stage, stored_bytes(precision));
    const Memory memory =
        layout.sharding == Sharding::replicated
            ? replicated(layout, undivided, units)
            : sharded(layout, undivided, units, after_head(shape, precision, layout, whole, rank.stage));
    if (memory.total() > most.total()) most = memory;
  }
  return most;
}

}  // namespace dpbench::forecast
