// Measures how much of a model a strategy holds that frees parameters: the memory of the model's parameters, and the
// outputs of all-gathers under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <torch/nn/module.h>

#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {

struct LiveBytes {
  int64_t parameters = 0, gathers = 0;
  int64_t all() const { return parameters + gathers; }
};

class LiveMemory {
 public:
  // The model is not kept alive. A later model takes its place.
  void watch(const std::shared_ptr<torch::nn::Module>& model) { model_ = model; }
  // Only a step counts: before the first one the whole model is built and shared.
  void in_step(bool on) { in_step_ = on; }
  // Measures now; does nothing outside a step.
  void measure();
  // Returns a backend that measures at each call. A gather is under way until its work has been waited for. This object
  // must outlive the backend's calls.
  c10::intrusive_ptr<c10d::Backend> measuring(c10::intrusive_ptr<c10d::Backend> inner);
  // Returns what was live when it was most.
  LiveBytes most() const;

 private:
  std::weak_ptr<torch::nn::Module> model_;
  std::atomic<bool> in_step_ = false;
  std::shared_ptr<std::atomic<int64_t>> gathers_ = std::make_shared<std::atomic<int64_t>>(0);  // bytes under way
  mutable std::mutex mutex_;
  LiveBytes most_;
};

}  // namespace dpbench
