// The number of a step that is recorded once and replayed for many: read from the device by layers that depend on it.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>

namespace dpbench {

class RecordedStep {
 public:
  // number: one int64 on the device. Forward passes of this thread go by it, not by Context::step, while this lives.
  explicit RecordedStep(at::Tensor number) : outer_(std::exchange(current(), std::move(number))) {}
  ~RecordedStep() { current() = std::move(outer_); }
  RecordedStep(const RecordedStep&) = delete;
  RecordedStep& operator=(const RecordedStep&) = delete;

  // Undefined outside of recorded steps.
  static const at::Tensor& number() { return current(); }

 private:
  static at::Tensor& current();
  at::Tensor outer_;
};

}  // namespace dpbench
