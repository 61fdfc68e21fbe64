// The exchange of activations between the ranks that compute one model together (tensor parallelism).
#pragma once

#include <string>

#include "strategies/api/phases.h"
#include "strategies/parts/timed.h"
#include "strategies/tensor/options.h"
#include "workloads/api/tensor_split.h"

namespace dpbench::tensor {

class Exchange : public TensorSplit {
 public:
  // tokens: length of the sequence, needed only if the sequence is cut. phases: charged with the time of the
  // collectives; may be null.
  Exchange(const Axis& axis, const Options& options, int64_t tokens, Phases* phases);

  int rank() const override { return axis_.rank; }
  int ranks() const override { return axis_.size; }
  void begin_block(const std::string& name) const override;
  Piece sequence() const override;
  at::Tensor enter(const at::Tensor& x) const override;
  at::Tensor leave(const at::Tensor& x, const Product& product) const override;
  at::Tensor join(const at::Tensor& piece, int64_t dim, const std::vector<int64_t>& sizes) const override;
  at::Tensor total(const at::Tensor& x) const override;
  at::Tensor maximum(const at::Tensor& x) const override;

 protected:
  // Returns a wrapper of collective calls that times them and adds the name of the model's block to their errors.
  Around around(const std::string& operation) const;
  // Returns the tensor. With tp.verify, throws if the tensor (with `forward`) or the gradient that arrives at it (with
  // `backward`) differs between ranks.
  at::Tensor verified(const at::Tensor& x, bool forward, bool backward, const std::string& operation) const;

  Axis axis_;
  Options options_;
  Cut tokens_;
  Phases* phases_;
  mutable std::string block_;
};

// Throws std::runtime_error, with `what` in the message, if the tensor is not the same on every rank of the axis.
// Collective.
void require_equal(const at::Tensor& tensor, const Axis& axis, const std::string& what);

}  // namespace dpbench::tensor
