#include "strategies/tensor/tensors.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/exchange/collectives.h"

namespace dpbench::tensor {

CutTensors::CutTensors(TensorPlan plan, const Axis& axis) : plan_(std::move(plan)), axis_(axis) {}

const TensorCut* CutTensors::find_cut(const std::string& name) const {
  const auto found = std::ranges::find(plan_.cuts, name, &TensorCut::name);
  return found == plan_.cuts.end() ? nullptr : &*found;
}

bool CutTensors::is_partial(const std::string& name, bool sequence) const {
  return sequence ? !is_cut(name) : std::ranges::count(plan_.partial, name) > 0;
}

void CutTensors::cut(const Model& model) const {
  const auto parameters = model.named_parameters();
  const auto buffers = model.named_buffers();
  for (const TensorCut& one : plan_.cuts) {
    const at::Tensor* known = parameters.find(one.name);
    if (!known) known = buffers.find(one.name);
    if (!known) throw std::logic_error("the model has no tensor " + one.name + " to divide");
    at::Tensor tensor = *known;
    tensor.set_data(piece(one.name, tensor.detach()).clone(at::MemoryFormat::Contiguous));
  }
}

at::Tensor CutTensors::piece(const std::string& name, const at::Tensor& whole) const {
  const TensorCut* one = find_cut(name);
  if (!one) return whole;
  const Piece mine = piece_of(one->sizes, axis_.rank);
  return whole.narrow(one->dim, mine.first, mine.size);
}

at::Tensor CutTensors::whole(const std::string& name, const at::Tensor& piece) const {
  const TensorCut* one = find_cut(name);
  return one && piece.defined() ? varying_to_invariant(piece, axis_, {one->dim, one->sizes}) : piece;
}

}  // namespace dpbench::tensor
