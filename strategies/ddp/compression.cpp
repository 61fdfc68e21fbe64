#include "strategies/ddp/compression.h"

#include <vector>

#include <ATen/ATen.h>

namespace dpbench::ddp {

// Reduces a bucket of gradients in the narrower dtype. Gradients are divided by the world size before the sum:
// float16's maximum is 65504, so their sum would overflow long before their mean.
c10::intrusive_ptr<c10::ivalue::Future> CompressionHook::runHook(c10d::GradBucket& bucket) {
  at::Tensor wide = bucket.getBuffer();
  std::vector<at::Tensor> narrow = {wide.to(type_.value_or(wide.scalar_type())).div_(state_->getSize())};
  auto done = state_->allreduce(narrow)->getFuture();
  return done->then(
      [wide, narrow](c10::ivalue::Future& future) {
        future.waitAndThrow();
        if (!wide.is_same(narrow[0])) wide.copy_(narrow[0]);
        return c10::IValue(wide);
      },
      c10::TensorType::get());
}

}  // namespace dpbench::ddp
