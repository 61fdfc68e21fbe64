// c10d communication hook of the strategy ddp that steps a bucket's parameters as soon as the bucket is reduced, during
// the backward pass.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace dpbench::ddp {

// Returns `piece`, the part of a bucket that holds the parameter's gradient, as a view with the parameter's strides.
// The Reducer stores the gradient with these strides, but the tensors of c10d's GradBucket have only its sizes.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& piece);

class SteppingHook : public c10d::CommHookInterface {
 public:
  // A function that steps parameters. It may be called from backend threads, for several buckets concurrently.
  using Step = std::function<void(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients)>;

  SteppingHook(std::unique_ptr<c10d::CommHookInterface> reduce, Step step)
      : reduce_(std::move(reduce)), step_(std::move(step)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override { return reduce_->parseHookResult(result); }

 private:
  std::unique_ptr<c10d::CommHookInterface> reduce_;
  Step step_;
};

}  // namespace dpbench::ddp
