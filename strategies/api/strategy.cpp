#include "strategies/api/strategy.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "workloads/base/joined_samples.h"

namespace dpbench {

namespace {

// Returns the tensor without its autograd graph. Faster than detach(), which matters in a 10 us step: makes no
// dispatcher call, and changes the tensor in place if this is the only reference to it.
at::Tensor without_graph(at::Tensor tensor) {
  if (tensor.use_count() > 1) return tensor.tensor_data();
  tensor.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
  return tensor;
}

}  // namespace

void add_micro(StepResult& result, at::Tensor output, at::Tensor loss) {
  output = without_graph(std::move(output));
  loss = without_graph(std::move(loss));
  const bool first = !result.output.defined();
  result.output = first ? std::move(output) : joined_samples({result.output, output});
  result.loss = first ? std::move(loss) : result.loss + loss;
}

namespace {

std::string form_of(const at::Tensor& tensor) {
  std::string sizes;
  for (const int64_t size : tensor.sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return std::string(at::toString(tensor.scalar_type())) + " [" + sizes + "]";
}

void require_loaded(const NamedTensors& mine, const NamedTensors& stored, const std::string& kind) {
  for (const auto& [name, tensor] : mine)
    if (!same_bits(tensor, *find(stored, name)))
      throw Unavailable("this strategy cannot resume from a snapshot: " + kind + " '" + name +
                        "' is exposed as a copy. Override load().");
}

void require_interval(const StrategyInfo& info) {
  if (info.gradient == Gradient::local && info.average_every < 1)
    throw UsageError("strategy '" + info.name +
                     "' has .gradient = Gradient::local, so .average_every must be 1 or more");
}

void require_complete(const StrategyInfo& info) {
  require_field(!info.name.empty(), "strategy", info.name, "name");
  require_field(static_cast<bool>(info.make), "strategy", info.name, "make");
  require_field(info.cpu || info.cuda, "strategy", info.name, "cpu or .cuda");
  require_interval(info);
  for (const std::string& axis : info.axes)
    require_field(
        std::ranges::count(known_axes(), axis, [](const KnownAxis& known) { return std::string(known.name); }) > 0,
        "strategy", info.name, "axes (there is no axis '" + axis + "')");
  const Settings& settings = info.settings;
  std::vector<ParamValues> used = {settings.revealing, settings.allow_unused, settings.allow_no_samples,
                                   settings.short_interval, settings.unrecorded};
  for (const Variant& variant : info.variants) used.push_back(variant.params);
  for (const ParamValues& values : used) Params(info.params, values, "strategy " + info.name);
}

NamedTensors copies_of(NamedTensors named) {
  for (auto& [name, tensor] : named)
    tensor = tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  return named;
}

}  // namespace

KeptTensors Strategy::kept_tensors() { return {parameters(), buffers(), gradients(), state()}; }

void Strategy::load_into(const NamedTensors& mine, const NamedTensors& stored, const std::string& kind) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : stored)
    if (!find(mine, name)) throw UsageError(kind + " '" + name + "' is in the snapshot but not in this model");
  for (const auto& [name, tensor] : mine) {
    const at::Tensor* source = find(stored, name);
    if (!source) throw UsageError(kind + " '" + name + "' is missing from the snapshot");
    if (source->sizes() != tensor.sizes() || source->scalar_type() != tensor.scalar_type())
      throw UsageError(kind + " '" + name + "' is " + form_of(tensor) + " but the snapshot has " + form_of(*source));
    at::Tensor(tensor).copy_(*source);
  }
}

void Strategy::load(const Snapshot& snapshot) {
  load_into(parameters(), snapshot.parameters, "parameter");
  load_into(buffers(), snapshot.buffers, "buffer");
  load_into(state(), snapshot.state, "optimizer state");
  require_loaded(parameters(), snapshot.parameters, "parameter");
  require_loaded(buffers(), snapshot.buffers, "buffer");
  require_loaded(state(), snapshot.state, "optimizer state");
}

Snapshot snapshot_of(Strategy& strategy) {
  return {copies_of(strategy.parameters()), copies_of(strategy.buffers()), copies_of(strategy.state())};
}

StrategyInfo promised(StrategyInfo info, const Params& params) {
  if (const auto promise = info.promise) promise(info, params);
  require_interval(info);
  return info;
}

MeshShape effective_mesh(const StrategyInfo& info, const Params& params, const std::string& asked, int world) {
  const MeshShape given = asked.empty() ? MeshShape{{default_axis, world}} : parse_mesh(asked);
  return info.mesh_for ? info.mesh_for(given, params) : given;
}

Registry<StrategyInfo>& strategy_registry() {
  static Registry<StrategyInfo> registry;
  return registry;
}

RegisterStrategy::RegisterStrategy(StrategyInfo info) {
  register_or_note([&] {
    require_complete(info);
    strategy_registry().add(std::move(info));
  });
}

}  // namespace dpbench
