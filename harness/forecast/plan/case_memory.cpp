#include "harness/forecast/plan/case_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "harness/forecast/plan/predict.h"
#include "harness/forecast/plan/speed.h"
#include "strategies/schedule/balance.h"

namespace dpbench::forecast {
namespace {

// Each rank of this strategy keeps the same tensors as a training on one device, because parameters are averaged in
// place.
constexpr const char* as_on_one_device = "local-sgd";

// Returns the number of blocks of each pipeline stage from a text such as "2+3+1".
std::vector<int64_t> sizes_in(const std::string& text) {
  std::vector<int64_t> sizes;
  std::istringstream in(text);
  for (std::string size; std::getline(in, size, '+');) sizes.push_back(std::atoll(size.c_str()));
  return sizes;
}

// A parameter of a strategy (--param) that plan's memory formula covers. value: the covered value; null: every value
// that has no entry of its own.
struct LayoutParam {
  const char *name, *value;
  void (*set)(Layout& layout, const std::string& value);
};

constexpr LayoutParam layout_params[] = {
    {"sequence", "on", [](Layout& layout, const std::string&) { layout.sequence = true; }},
    {"reshard", "off", [](Layout& layout, const std::string&) { layout.reshard = false; }},
    {"gather", "bf16", [](Layout& layout, const std::string&) { layout.narrow = true; }},
    {"sync", "each", [](Layout&, const std::string&) {}},  // layout_of() reads sync from the case
    {"schedule", "interleaved",
     [](Layout& layout, const std::string& value) { layout.schedule = pipeline::find_family(value); }},
    {"stages", nullptr, [](Layout& layout, const std::string& value) { layout.stages = std::atoi(value.c_str()); }},
    {"blocks", "balanced", [](Layout& layout, const std::string&) { layout.stage_sizes.clear(); }},
    {"blocks", nullptr, [](Layout& layout, const std::string& value) { layout.stage_sizes = sizes_in(value); }},
    {"microbatches", nullptr,
     [](Layout& layout, const std::string& value) { layout.micro_batches *= std::atoll(value.c_str()); }},
    {"average_every", nullptr, [](Layout&, const std::string&) {}}};

// Sets the option `name` of a layout to `value`. Returns false if plan's memory formula does not cover this option or
// value.
bool take(const std::string& name, const std::string& value, Layout& layout) {
  const auto* param = std::ranges::find_if(
      layout_params, [&](const LayoutParam& one) { return name == one.name && (!one.value || value == one.value); });
  if (param == std::end(layout_params)) return false;
  param->set(layout, value);
  return true;
}

// Returns the number of blocks of each pipeline stage by the strategy's default: balanced by the FLOP of matrix
// products.
std::vector<int64_t> default_sizes(const gpt::Shape& shape, int64_t stages) {
  const auto head = static_cast<double>(shape.vocab * shape.hidden);
  const double attention = 2 * static_cast<double>(shape.hidden * shape.seq);
  const double layer =
      (static_cast<double>(shape.multiplied_parameters()) - head) / static_cast<double>(shape.layers) + attention;
  std::vector<double> costs = {0};
  costs.insert(costs.end(), static_cast<size_t>(shape.layers), layer);
  costs.insert(costs.end(), {0, head});
  return pipeline::balanced_sizes(costs, stages);
}

// Completes the options of a pipeline with the strategy's defaults. Returns false if a stage would have no block.
bool cut_stages(const gpt::Shape& shape, Layout& layout) {
  if (layout.size("pp") == 1) return true;
  if (!layout.schedule) layout.schedule = pipeline::find_family("1f1b");
  layout.stages = std::max(layout.stages, layout.schedule->least_chunks);
  const int64_t blocks = shape.layers + least_blocks, stages = int64_t{layout.size("pp")} * layout.stages;
  if (blocks < stages) return false;
  if (layout.stage_sizes.empty()) layout.stage_sizes = default_sizes(shape, stages);
  return true;
}

// Returns the layout of a measured case; nullopt if no memory formula covers the case.
std::optional<Layout> layout_of(const CaseSpec& spec, const gpt::Shape& shape) {
  const bool alone = spec.strategy == as_on_one_device;
  const PlannedStrategy strategy = alone ? planned::cpu : planned::named(spec.strategy);
  if (strategy.name[0] == '\0') return std::nullopt;
  const MeshShape mesh = spec.mesh.empty() ? MeshShape{{default_axis, spec.world}} : parse_mesh(spec.mesh);
  Layout layout{.strategy = strategy.name,
                .mesh = alone ? MeshShape{} : without_single(mesh),
                .sharding = strategy.sharding,
                .overlapped = strategy.overlapped,
                .recompute = spec.recompute,
                .micro_batches = spec.accumulate};
  for (const auto& [name, value] : spec.params)
    if (!take(name, value, layout)) return std::nullopt;
  layout.narrow = layout.narrow && spec.dtype == Dtype::bf16;
  if (!cut_stages(shape, layout)) return std::nullopt;
  if (layout.strategy == planned::layout.name && layout.size("shard") > 1) layout.sharding = Sharding::parameters;
  const bool shards = layout.sharding == Sharding::gradients || layout.sharding == Sharding::parameters;
  if (shards && layout.shards() == 1) layout.sharding = Sharding::replicated, layout.overlapped = false;
  // The memory formula does not cover strategies that keep unsharded gradients between micro-batches. The strategy
  // `layout` does so, unless it reduces gradients in each micro-batch.
  const bool reduces_each = layout.reduces_each() || spec.params.contains("sync");
  if (layout.shards() > 1 && shards && layout.micro_batches > 1 && !reduces_each) return std::nullopt;
  const double rows = static_cast<double>(spec.global_batch()) / spec.replicas();
  layout.rows = std::llround(std::ceil(rows / static_cast<double>(layout.micro_batches)));
  return layout;
}

}  // namespace

std::optional<MemoryFormula> formula_memory(const CaseSpec& spec) {
  if (spec.workload != planned_workload || spec.device != Device::cpu || spec.scale != 1) return std::nullopt;
  const gpt::Shape shape = gpt::parse_shape(spec.model.empty() ? "small" : spec.model);
  const std::optional<Layout> layout = shape.experts > 0 ? std::nullopt : layout_of(spec, shape);
  if (!layout) return std::nullopt;
  const Memory memory = memory_of(shape, precision_of(spec.dtype), *layout);
  return MemoryFormula{.parameters = std::llround(memory.parameters),
                       .gradients = std::llround(memory.gradients),
                       .state = std::llround(memory.state),
                       .activations = std::llround(memory.activations),
                       .buffers = std::llround(memory.buffers)};
}

}  // namespace dpbench::forecast
