// Cuts a model's parameters and buffers into pieces, one for each rank of tensor or expert parallelism, and joins the
// pieces to whole tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/named_tensors.h"
#include "strategies/parts/by_name.h"
#include "workloads/api/tensor_split.h"
#include "workloads/api/workload.h"

namespace dpbench::tensor {

class CutTensors {
 public:
  CutTensors(TensorPlan plan, const Axis& axis);

  // Puts this rank's piece in the place of each parameter and buffer that is to be cut. `model` must be a whole model.
  void cut(const Model& model) const;

  bool is_cut(const std::string& name) const { return find_cut(name) != nullptr; }
  // Returns the dimension in which a tensor is cut; nullopt if it is not cut.
  std::optional<int64_t> cut_dim(const std::string& name) const;
  // True if a parameter is not cut but its gradient must be summed over ranks. sequence: true if each rank has only a
  // piece of the sequence; the gradient of every uncut parameter then covers only the tokens of that piece.
  bool is_partial(const std::string& name, bool sequence) const;
  // Returns this rank's piece of a whole tensor, or the tensor itself if this name is not cut.
  at::Tensor piece(const std::string& name, const at::Tensor& whole) const;
  // Joins the pieces of all ranks to whole tensors; returns tensors that are not cut unchanged. Collective: every rank
  // passes the same names.
  ByName joined(const ByName& pieces) const;

 private:
  void join(const std::vector<std::string>& names, ByName& tensors) const;
  const TensorCut* find_cut(const std::string& name) const;

  TensorPlan plan_;
  Axis axis_;
};

}  // namespace dpbench::tensor
