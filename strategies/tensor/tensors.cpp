#include "strategies/tensor/tensors.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/collectives.h"

namespace dpbench::tensor {

CutTensors::CutTensors(TensorPlan plan, const Axis& axis) : plan_(std::move(plan)), axis_(axis) {}

const TensorCut* CutTensors::find_cut(const std::string& name) const {
  const auto found = std::ranges::find(plan_.cuts, name, &TensorCut::name);
  return found == plan_.cuts.end() ? nullptr : &*found;
}

std::optional<int64_t> CutTensors::cut_dim(const std::string& name) const {
  const TensorCut* one = find_cut(name);
  return one ? std::optional(one->dim) : std::nullopt;
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

ByName CutTensors::joined(const ByName& pieces) const {
  ByName wholes = pieces;
  std::map<at::ScalarType, std::vector<std::string>> names;  // the names of the cut tensors of each dtype
  for (const auto& [name, piece] : pieces)
    if (is_cut(name)) names[piece.scalar_type()].push_back(name);
  for (const auto& [dtype, same] : names) join(same, wholes);
  return wholes;
}

// Replaces the pieces named in `names`, which have one dtype, by whole tensors, with a single all-gather.
void CutTensors::join(const std::vector<std::string>& names, ByName& tensors) const {
  std::vector<at::Tensor> flat;
  std::vector<std::vector<int64_t>> elements;  // for each tensor, the number of elements of each rank's piece
  std::vector<int64_t> totals(static_cast<size_t>(axis_.size), 0);
  for (const std::string& name : names) {
    const TensorCut& cut = *find_cut(name);
    const at::Tensor& piece = tensors.at(name);
    elements.emplace_back();
    for (size_t rank = 0; rank < totals.size(); ++rank) {
      elements.back().push_back(piece.numel() / piece.size(cut.dim) * cut.sizes[rank]);
      totals[rank] += elements.back().back();
    }
    flat.push_back(piece.detach().reshape({-1}));
  }
  const auto of_ranks = varying_to_invariant(at::cat(flat), axis_, {0, totals}).split_with_sizes(totals);
  std::vector<int64_t> begin(totals.size(), 0);
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorCut& cut = *find_cut(names[i]);
    at::Tensor& tensor = tensors.at(names[i]);
    std::vector<int64_t> sizes = tensor.sizes().vec();
    std::vector<at::Tensor> parts;
    for (size_t rank = 0; rank < totals.size(); ++rank) {
      sizes[static_cast<size_t>(cut.dim)] = cut.sizes[rank];
      parts.push_back(of_ranks[rank].narrow(0, begin[rank], elements[i][rank]).view(sizes));
      begin[rank] += elements[i][rank];
    }
    tensor = at::cat(parts, cut.dim);
  }
}

}  // namespace dpbench::tensor
