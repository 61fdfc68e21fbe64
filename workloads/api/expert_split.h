// Expert parallelism: each rank trains on its own samples and holds some of a layer's experts, MLPs from which a router
// selects for each token. A model calls an ExpertSplit to send tokens to the ranks of their experts, and the results
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/api/tensor_split.h"

namespace dpbench {

// How the experts of a model are divided among ranks: each rank holds consecutive experts.
struct ExpertPlan {
  std::vector<TensorCut> cuts;  // cuts of the experts' parameters; empty: no experts
  // For a strategy's traffic formula: layers with experts, experts per layer, and rows (of `hidden` elements each) that
  // the tokens of a sample send to the experts of a layer. rows is 0 if the number depends on the sample.
  int64_t layers = 0, experts = 0, rows = 0, hidden = 0;
  size_t first_layer = 0;  // number of the model's block that is the first of these layers; each is one block
};

// Exchanges tokens between ranks during one micro-batch. Every rank makes the same calls in the same order.
class ExpertSplit {
 public:
  virtual ~ExpertSplit() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // The model calls begin_block() before each of its blocks. name: the block's name, for error messages.
  virtual void begin_block(const std::string& /*name*/) const {}
  // Returns counts[rank][expert]: the number of rows (one per token) that the rank sends to the expert. mine: the
  // counts of this rank.
  virtual std::vector<std::vector<int64_t>> counts(const std::vector<int64_t>& mine) const = 0;
  // Sends the first sent[0] rows to rank 0, the next sent[1] rows to rank 1, and so on. Returns the received rows in
  // the order of their ranks, received[r] rows from rank r. The backward pass sends the gradients back.
  virtual at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                              const std::vector<int64_t>& received) const = 0;
};

}  // namespace dpbench
