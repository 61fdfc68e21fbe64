#include "strategies/parts/shard_sums.h"

#include "strategies/api/parts/flat.h"

namespace dpbench {

void clip_parts(const std::vector<at::Tensor>& gradients, double limit, at::Device device,
                const std::vector<c10d::ProcessGroup*>& groups, const std::vector<at::Tensor>& copies) {
  at::Tensor squares = at::zeros({1}, at::TensorOptions().dtype(at::kDouble).device(device));
  for (const at::Tensor& gradient : gradients)
    squares += at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).square();
  std::vector<at::Tensor> sum = {squares};
  for (c10d::ProcessGroup* group : groups)
    if (group && group->getSize() > 1) group->allreduce(sum)->wait();
  // Multiplying a gradient without dimensions in place needs a factor without dimensions, so sum() removes the
  // dimension of the one-element vector.
  const at::Tensor factor = (limit / (sum[0].sum().sqrt() + 1e-6)).clamp_max(1.0);
  for (const auto* list : {&gradients, &copies})
    for (const at::Tensor& gradient : *list) gradient.mul_(factor.to(gradient.scalar_type()));
}

void sum_over(const Axis& axis, const std::vector<at::Tensor>& gradients, double divisor) {
  if (axis.size == 1 || gradients.empty()) return;
  const Flat flat(gradients);
  for (size_t i = 0; i < gradients.size(); ++i) flat.views()[i].copy_(gradients[i]);
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (const at::Tensor& buffer : flat.buffers()) {
    std::vector<at::Tensor> sum = {buffer};
    works.push_back(axis.group->allreduce(sum));
  }
  for (const auto& work : works) work->wait();
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i].copy_(divisor == 1 ? flat.views()[i] : flat.views()[i].div(divisor));
}

std::vector<at::Tensor> largest_step_counts(const std::vector<Parameter>& parameters, const NamedTensors& state,
                                            at::Device device, c10d::ProcessGroup* group) {
  std::vector<at::Tensor> counts = {
      at::zeros({static_cast<int64_t>(parameters.size())}, at::TensorOptions().dtype(at::kFloat).device(device))};
  for (size_t i = 0; i < parameters.size(); ++i)
    if (const at::Tensor* mine = find(state, state_name(parameters[i].name, Slot::step)))
      counts[0][static_cast<int64_t>(i)].copy_(*mine);
  c10d::AllreduceOptions largest;
  largest.reduceOp = c10d::ReduceOp::MAX;
  if (group && group->getSize() > 1) group->allreduce(counts, largest)->wait();
  return counts[0].unbind();
}

}  // namespace dpbench
