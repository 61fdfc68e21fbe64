// Expert parallelism: each rank has its own samples and some of a layer's experts, the MLPs among which a router
// chooses for each token. A model calls an ExpertSplit to send tokens to the ranks of their experts, and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/api/tensor_split.h"

namespace dpbench {

// How the experts of a model are cut for a number of ranks: each rank has consecutive ones.
struct ExpertPlan {
  std::vector<TensorCut> cuts;  // of the experts' parameters; empty: the model has no experts
  // For the formula of the traffic: layers with experts, experts of a layer, and rows of `hidden` elements that a
  // sample sends to the experts of a layer; 0 if that depends on the sample.
  int64_t layers = 0, experts = 0, rows = 0, hidden = 0;
};

// The exchange of one micro-batch. Every rank makes the same calls in the same order.
class ExpertSplit {
 public:
  virtual ~ExpertSplit() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Called before each block of the model, with its name for error messages.
  virtual void begin_block(const std::string& /*name*/) const {}
  // Returns, for each rank, how many rows it sends to each expert. mine: those of this rank.
  virtual std::vector<std::vector<int64_t>> counts(const std::vector<int64_t>& mine) const = 0;
  // Sends the first sent[0] rows to rank 0, the next sent[1] to rank 1, and so on. Returns the rows of rank 0, then
  // those of rank 1, and so on. The gradients take the way back.
  virtual at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                              const std::vector<int64_t>& received) const = 0;
};

}  // namespace dpbench
