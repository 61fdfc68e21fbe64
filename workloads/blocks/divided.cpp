#include "workloads/blocks/divided.h"

#include "workloads/base/error.h"

namespace dpbench {

TensorPlan plan_of_stack(const std::vector<StackLayer>& layers, int ranks) {
  TensorPlan plan;
  const auto cut = [&](const std::string& name, int64_t dim, int64_t features) {
    if (features < ranks)
      throw UsageError("tensor parallelism over " + std::to_string(ranks) + " ranks: " + name + " has only " +
                       std::to_string(features) + " features to divide");
    plan.cuts.push_back({name, dim, even_pieces(features, ranks)});
  };
  for (size_t depth = 0; depth < layers.size(); ++depth) {
    const StackLayer& layer = layers[depth];
    const Cutting cutting = cutting_of(static_cast<int64_t>(depth), static_cast<int64_t>(layers.size()));
    if (cutting == Cutting::inputs || cutting == Cutting::whole_inputs) {
      cut(layer.name + ".weight", 1, layer.inputs);
      plan.left[depth].add(layer.outputs * layer.pixels_out, /*is_cast=*/true);
    }
    if (cutting != Cutting::outputs) continue;
    cut(layer.name + ".weight", 0, layer.outputs);
    if (layer.has_bias) cut(layer.name + ".bias", 0, layer.outputs);
    for (const std::string& name : layer.per_output) cut(name, 0, layer.outputs);
    // Count the input gradients that ranks sum in the backward pass. The first layer has none, because samples need no
    // gradient.
    if (depth > 0) plan.entered[depth].add(layer.inputs * layer.pixels_in, /*is_cast=*/true);
  }
  return plan;
}

}  // namespace dpbench
