#include "strategies/ddp/stepping.h"

#include <ATen/ATen.h>

namespace dpbench::ddp {

at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& piece) {
  if (!parameter.is_non_overlapping_and_dense()) return piece.view(parameter.sizes());
  return piece.as_strided(parameter.sizes(), parameter.strides(), piece.storage_offset());
}

// Reduces a bucket of gradients and then steps its parameters while the backward pass goes on. The backward pass no
// longer reads a parameter when the parameter's gradient is complete.
c10::intrusive_ptr<c10::ivalue::Future> SteppingHook::runHook(c10d::GradBucket& bucket) {
  std::vector<at::Tensor> parameters, gradients;
  const auto all = bucket.getParameters();
  const auto pieces = bucket.getGradients();
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!all[i].grad().defined()) continue;  // skips a parameter that no rank used, in a static graph
    parameters.push_back(all[i]);
    gradients.push_back(in_layout_of(all[i], pieces[i]));
  }
  return reduce_->runHook(bucket)->then(
      [parameters, gradients, step = step_](c10::ivalue::Future& future) {
        future.waitAndThrow();
        step(parameters, gradients);
        return future.value();
      },
      c10::TensorType::get());
}

}  // namespace dpbench::ddp
