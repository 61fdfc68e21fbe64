#include "harness/forecast/plan/layout.h"

#include <algorithm>

#include "harness/forecast/plan/work.h"
#include "strategies/schedule/balance.h"

namespace dpbench::forecast {
namespace {

constexpr int64_t most_micro_batches = 1 << 16;  // largest allowed --accumulate

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) all.push_back(i);
  return all;
}

bool divides_heads(const gpt::Shape& shape, int ranks) {
  return shape.heads % ranks == 0 && (shape.kv_heads % ranks == 0 || shape.kv_heads < ranks) && shape.mlp >= ranks &&
         shape.vocab >= ranks;
}

// Sizes of the axes of a mesh; 1: the mesh lacks the axis.
struct Sizes {
  int dp = 1, shard = 1, cp = 1, pp = 1, tp = 1;

  MeshShape mesh() const { return without_single({{"dp", dp}, {"shard", shard}, {"cp", cp}, {"pp", pp}, {"tp", tp}}); }
  bool data_alone() const { return cp * pp * tp == 1; }
};

std::vector<Sizes> sizes_of(const Space& space) {
  const gpt::Shape& shape = space.shape;
  const int host = space.host_size > 0 ? space.host_size : space.devices;
  std::vector<Sizes> all;
  for (const int tp : divisors(space.devices)) {
    if (tp > 1 && (host % tp != 0 || !divides_heads(shape, tp))) continue;
    for (const int pp : divisors(space.devices / tp)) {
      if (pp > shape.layers) continue;
      for (const int cp : divisors(space.devices / tp / pp)) {
        if (cp > 1 && shape.seq % (int64_t{2} * cp) != 0) continue;
        const int data = space.devices / tp / pp / cp;
        if (space.batch % data != 0) continue;
        for (const int shard : divisors(data)) all.push_back({data / shard, shard, cp, pp, tp});
      }
    }
  }
  return all;
}

Layout layout_of(const PlannedStrategy& strategy, const Sizes& sizes) {
  return {.strategy = strategy.name,
          .mesh = sizes.mesh(),
          .sharding = strategy.sharding,
          .overlapped = strategy.overlapped};
}

// Returns one layout for each strategy that can use this mesh. The strategies differ in the tensors that they shard.
std::vector<Layout> strategies_on(const Sizes& sizes, bool gpus) {
  if (sizes.dp * sizes.shard == 1 && sizes.data_alone()) return {layout_of(gpus ? planned::gpu : planned::cpu, sizes)};
  if (!sizes.data_alone()) {
    Layout layout = layout_of(planned::layout, sizes);
    if (sizes.shard > 1) layout.sharding = Sharding::parameters, layout.overlapped = true;
    return {layout};
  }
  if (sizes.shard > 1 && sizes.dp > 1) return {layout_of(planned::fsdp, sizes)};
  if (sizes.shard > 1) return {};  // skip a mesh with the axis shard but without dp: fsdp over dp is the same layout
  std::vector<Layout> all;
  for (const auto& strategy : {planned::ddp, planned::zero1, planned::zero2, planned::fsdp})
    all.push_back(layout_of(strategy, sizes));
  return all;
}

// Returns copies of a layout that differ in the pipeline schedule: one for 1f1b and, if possible, two for interleaved
// with 2 and with 4 stages per rank. Without the axis pp, returns the layout itself.
std::vector<Layout> scheduled(const gpt::Shape& shape, Layout layout) {
  const int ranks = layout.size("pp");
  if (ranks == 1) return {layout};
  std::vector<Layout> all;
  const auto add = [&](const char* schedule, int stages) {
    layout.schedule = pipeline::find_family(schedule), layout.stages = stages;
    layout.stage_sizes = spread_blocks(shape, layout);
    all.push_back(layout);
  };
  add("1f1b", 1);
  for (const int stages : {2, 4})
    if (int64_t{stages} * ranks <= shape.layers + least_blocks && layout.micro_batches % ranks == 0)
      add("interleaved", stages);
  return all;
}

std::vector<bool> choices(bool possible) { return possible ? std::vector{false, true} : std::vector{false}; }

// Returns the candidate sizes of a micro-batch: the powers of two that divide `rows` (a rank's samples per step), and
// `rows` itself.
std::vector<int64_t> micro_batch_rows(int64_t rows) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < rows && rows % size == 0; size *= 2) sizes.push_back(size);
  sizes.push_back(rows);
  return sizes;
}

void each_option(const Space& space, Layout base, const std::function<void(const Layout&)>& take) {
  const int64_t rows = space.batch / base.size("dp") / base.size("shard");
  const bool cuts_sequence = base.size("tp") > 1 && space.shape.seq / base.size("cp") >= base.size("tp");
  const bool frees = base.sharding == Sharding::parameters;
  base.narrow = frees && space.precision == gpt::Precision::bfloat16;
  for (const int64_t micro : micro_batch_rows(rows)) {
    if (rows / micro > most_micro_batches) continue;
    base.rows = micro, base.micro_batches = rows / micro;
    for (Layout layout : scheduled(space.shape, base))
      for (const bool recompute : choices(true))
        for (const bool sequence : choices(cuts_sequence))
          for (const bool keep : choices(frees)) {
            layout.recompute = recompute ? 1 : 0;
            layout.sequence = sequence;
            layout.reshard = !keep;
            take(layout);
          }
  }
}

}  // namespace

std::vector<int64_t> spread_blocks(const gpt::Shape& shape, const Layout& layout) {
  const auto cost = [&](gpt::Part part) {
    return work_of(shape, part, layout.cut(), gpt::Precision::float32, 1).forward.flop;
  };
  // The embedding counts as free for the balance of pipeline stages, because it has no matrix product.
  std::vector<double> costs = {0};
  costs.insert(costs.end(), static_cast<size_t>(shape.layers), cost(gpt::Part::layer));
  costs.insert(costs.end(), {0, cost(gpt::Part::head)});
  return pipeline::balanced_sizes(costs, int64_t{layout.size("pp")} * layout.stages);
}

void each_layout(const Space& space, const std::function<void(const Layout&)>& take) {
  for (const Sizes& sizes : sizes_of(space))
    for (const Layout& base : strategies_on(sizes, space.gpus)) each_option(space, base, take);
}

MeshShape without_single(const MeshShape& mesh) {
  MeshShape all;
  for (const AxisSize& axis : mesh)
    if (axis.size > 1) all.push_back(axis);
  return all;
}

std::string text_of(const Layout& layout) {
  std::string text = layout.strategy;
  if (!layout.mesh.empty()) text += " " + text_of(layout.mesh);
  if (layout.schedule) {
    text += ", " + layout.schedule->name;
    if (layout.stages > 1) text += " of " + std::to_string(layout.stages);
  }
  text += ", " + std::to_string(layout.micro_batches) + " x " + std::to_string(layout.rows) + " samples";
  if (layout.sequence) text += ", sequence";
  if (!layout.reshard) text += ", kept";
  if (layout.recompute > 0) text += ", recompute";
  return text;
}

namespace {

std::string params_of(const Layout& layout) {
  std::string text;
  const auto add = [&](const std::string& key, const std::string& value) {
    text += " --param " + layout.strategy + "." + key + "=" + value;
  };
  if (layout.schedule) add("schedule", layout.schedule->name);
  if (layout.stages > 1) add("stages", std::to_string(layout.stages));
  if (!layout.stage_sizes.empty()) {
    std::string blocks;
    for (const int64_t size : layout.stage_sizes) blocks += (blocks.empty() ? "" : "+") + std::to_string(size);
    add("blocks", blocks);
  }
  if (layout.sequence) add("sequence", "on");
  if (!layout.reshard) add("reshard", "off");
  if (layout.narrow) add("gather", "bf16");
  if (layout.narrow && !planned::named(layout.strategy).reduces_each) add("sync", "each");
  return text;
}

}  // namespace

std::string flags_of(const Layout& layout, int threads) {
  const int64_t batch = layout.rows * layout.micro_batches * layout.size("dp") * layout.size("shard");
  std::string text = "--strategy " + layout.strategy;
  text += (threads == 0 ? " --gpus " : " --cpus ") + std::to_string(ranks_of(layout.mesh));
  if (threads > 0) text += " --threads " + std::to_string(threads);
  if (!is_plain(layout.mesh)) text += " --mesh " + text_of(layout.mesh);
  text += " --scaling strong --batch " + std::to_string(batch);
  if (layout.micro_batches > 1) text += " --accumulate " + std::to_string(layout.micro_batches);
  if (layout.recompute > 0) text += " --recompute " + std::to_string(layout.recompute);
  return text + params_of(layout);
}

std::string check_flags_of(const Layout& layout) {
  Layout small = layout;
  for (AxisSize& axis : small.mesh) axis.size = 2;
  small.stages = std::min(layout.stages, 2);
  small.stage_sizes.clear();
  // The flags for `check` leave out bfloat16, because checks choose their own dtypes (float32 and float64).
  small.narrow = false;
  std::string text = "--strategy " + small.strategy;
  text += is_plain(small.mesh) ? " --cpus 2" : " --mesh " + text_of(small.mesh);
  if (small.recompute > 0) text += " --recompute " + std::to_string(small.recompute);
  return text + params_of(small);
}

}  // namespace dpbench::forecast
