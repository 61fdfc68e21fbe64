// The number of the current training step for a step that was captured in a CUDA graph. The graph is replayed for many
// steps, so layers such as dropout must read the number from device memory.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>

namespace dpbench {

class RecordedStep {
 public:
  // number: the step number, as one int64 in device memory. While this object exists, forward passes of this thread use
  // it in place of Context::step.
  explicit RecordedStep(at::Tensor number) : outer_(std::exchange(current(), std::move(number))) {}
  ~RecordedStep() { current() = std::move(outer_); }
  RecordedStep(const RecordedStep&) = delete;
  RecordedStep& operator=(const RecordedStep&) = delete;

  // Returns the tensor with the step number; undefined if no RecordedStep object exists on this thread.
  static const at::Tensor& number() { return current(); }

 private:
  static at::Tensor& current();
  at::Tensor outer_;
};

}  // namespace dpbench
