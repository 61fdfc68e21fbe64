// The tensors of a divided model: this rank's pieces of the cut parameters and buffers, and whole tensors from them.
#pragma once

#include <string>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/named_tensors.h"
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
  // Returns the whole tensor from the ranks' pieces. Collective. An undefined tensor stays undefined.
  at::Tensor whole(const std::string& name, const at::Tensor& piece) const;

 private:
  const TensorCut* find_cut(const std::string& name) const;

  TensorPlan plan_;
  Axis axis_;
};

}  // namespace dpbench::tensor
