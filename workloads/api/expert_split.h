// Expert parallelism: each rank trains on its own samples and holds some of the experts of each layer. Experts are
// MLPs, from which a router selects some for each token. A model calls an ExpertSplit to send tokens to the ranks that
// hold their experts, and to get the results back.
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
  std::vector<TensorCut> cuts;  // how the parameters of the experts are cut; empty: the model has no experts
  // For a strategy's traffic formula: the number of layers with experts, the number of experts per layer, and the
  // number of rows that the tokens of one sample send to the experts of a layer (0 if it depends on the sample, because
  // experts drop tokens). A row has `hidden` elements.
  int64_t layers = 0, experts = 0, rows = 0, hidden = 0;
  size_t first_layer = 0;      // index of the block that is the first layer with experts; each layer is one block
  bool casts_results = false;  // true if autocast converts the rows that experts return to its dtype
};

// Exchanges tokens between ranks during one micro-batch. Every rank makes the same calls in the same order.
class ExpertSplit {
 public:
  virtual ~ExpertSplit() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // The model calls begin_block() before each of its blocks. name: the block's name, for messages of later errors.
  virtual void begin_block(const std::string& /*name*/) const {}
  // Tells all ranks how many rows (one per token) each rank sends to each expert. mine: the counts of this rank, by
  // expert. Returns counts[rank][expert].
  virtual std::vector<std::vector<int64_t>> counts(const std::vector<int64_t>& mine) const = 0;
  // Sends the first sent[0] rows to rank 0, the next sent[1] rows to rank 1, and so on. Returns the received rows,
  // ordered by the rank that sent them; received[r] is the number of rows from rank r. The backward pass sends the
  // gradients of the rows back.
  virtual at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                              const std::vector<int64_t>& received) const = 0;
};

}  // namespace dpbench
