// Step number of a recorded step, which is replayed for many steps. Layers read it from the device.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>

namespace dpbench {

class RecordedStep {
 public:
  // number: one int64 on the device. Replaces Context::step in this thread's forward passes for the object's lifetime.
  explicit RecordedStep(at::Tensor number) : outer_(std::exchange(current(), std::move(number))) {}
  ~RecordedStep() { current() = std::move(outer_); }
  RecordedStep(const RecordedStep&) = delete;
  RecordedStep& operator=(const RecordedStep&) = delete;

  // Undefined outside recorded steps.
  static const at::Tensor& number() { return current(); }

 private:
  static at::Tensor& current();
  at::Tensor outer_;
};

}  // namespace dpbench
