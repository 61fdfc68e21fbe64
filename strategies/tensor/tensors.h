// The tensors of a divided model: this rank's pieces of the cut parameters and buffers, and whole tensors from them.
#pragma once

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

  // Replaces the cut parameters and buffers of a whole model by this rank's pieces.
  void cut(const Model& model) const;

  bool is_cut(const std::string& name) const { return find_cut(name) != nullptr; }
  // True for a whole parameter whose gradient must be summed over ranks. sequence: each rank has a piece of the
  // sequence, so the gradient of every whole parameter covers the piece's tokens alone.
  bool is_partial(const std::string& name, bool sequence) const;
  // Returns this rank's piece of a whole tensor, or the tensor itself if this name is not cut.
  at::Tensor piece(const std::string& name, const at::Tensor& whole) const;
  // Returns the whole tensors from the ranks' pieces; others as they are. Collective: every rank names the same ones.
  ByName joined(const ByName& pieces) const;

 private:
  void join(const std::vector<std::string>& names, ByName& tensors) const;
  const TensorCut* find_cut(const std::string& name) const;

  TensorPlan plan_;
  Axis axis_;
};

}  // namespace dpbench::tensor
