#include "strategies/parts/shard_sums.h"

namespace dpbench {

void clip_parts(const std::vector<at::Tensor>& gradients, double limit, at::Device device, c10d::ProcessGroup* group,
                const std::vector<at::Tensor>& copies) {
  at::Tensor squares = at::zeros({1}, at::TensorOptions().dtype(at::kDouble).device(device));
  for (const at::Tensor& gradient : gradients)
    squares += at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).square();
  std::vector<at::Tensor> sum = {squares};
  if (group && group->getSize() > 1) group->allreduce(sum)->wait();
  const at::Tensor factor = (limit / (sum[0].sum().sqrt() + 1e-6)).clamp_max(1.0);  // zero-dimensional
  for (const auto* list : {&gradients, &copies})
    for (const at::Tensor& gradient : *list) gradient.mul_(factor.to(gradient.scalar_type()));
}

std::vector<at::Tensor> largest_step_counts(const std::vector<Parameter>& parameters, const NamedTensors& state,
                                            at::Device device, c10d::ProcessGroup* group) {
  std::vector<at::Tensor> counts = {
      at::zeros({static_cast<int64_t>(parameters.size())}, at::TensorOptions().dtype(at::kFloat).device(device))};
  for (size_t i = 0; i < parameters.size(); ++i)
    if (const at::Tensor* mine = find(state, parameters[i].name + ".step"))
      counts[0][static_cast<int64_t>(i)].copy_(*mine);
  c10d::AllreduceOptions largest;
  largest.reduceOp = c10d::ReduceOp::MAX;
  if (group && group->getSize() > 1) group->allreduce(counts, largest)->wait();
  return counts[0].unbind();
}

}  // namespace dpbench
