// Measures the memory of a model under a strategy that frees parameters: the parts of parameters that the strategy
// keeps, the parameters in memory and the outputs of all-gathers in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/nn/module.h>

#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {

class Strategy;

// Returns the bytes of memory of these tensors. Tensors that share memory count once; freed tensors occupy none.
int64_t memory_of(const std::vector<at::Tensor>& tensors);

struct LiveBytes {
  int64_t kept = 0, parameters = 0, gathers = 0;  // kept: bytes of the rank's shards
  int64_t all() const { return kept + parameters + gathers; }
};

class LiveMemory {
 public:
  // Sets the model to measure, replacing any earlier one. Does not keep it alive.
  void watch(const std::shared_ptr<torch::nn::Module>& model) { model_ = model; }
  // Measures the memory of `strategy` from now on, during its step; null ends the measuring. Outside steps nothing is
  // measured, because the whole model is in memory before the first step. Does not keep the strategy alive.
  void in_step(const std::shared_ptr<Strategy>& strategy);
  // Measures the model's memory now; does nothing outside a step.
  void measure();
  // Returns a wrapper of `inner` that calls measure() at each collective. An all-gather is in flight until its Work
  // has been waited for or destroyed. This object must outlive the wrapper's calls.
  c10::intrusive_ptr<c10d::Backend> measuring(c10::intrusive_ptr<c10d::Backend> inner);
  // Returns the bytes (kept shards, parameters, all-gathers) at the moment when their sum was largest.
  LiveBytes most() const;

 private:
  std::weak_ptr<torch::nn::Module> model_;
  // Output bytes of all-gathers in flight.
  std::shared_ptr<std::atomic<int64_t>> gathers_ = std::make_shared<std::atomic<int64_t>>(0);
  mutable std::mutex mutex_;
  std::weak_ptr<Strategy> strategy_;  // the strategy whose memory is measured; expired outside a step
  LiveBytes most_;
};

}  // namespace dpbench
