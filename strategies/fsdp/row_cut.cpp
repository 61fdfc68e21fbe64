#include "strategies/fsdp/row_cut.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>

namespace dpbench::fsdp {
namespace {

// Returns the tensor. A tensor without dimensions has no rows, so it is returned as a view of one row.
at::Tensor with_rows(const at::Tensor& tensor) { return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor; }

}  // namespace

RowCut::RowCut(const std::vector<at::Tensor>& tensors, int ranks) : ranks_(ranks) {
  for (const at::Tensor& tensor : tensors) {
    Place place;
    if (tensor.dim() > 0) place.row = tensor.sizes().slice(1).vec();
    place.rows = tensor.dim() > 0 ? tensor.size(0) : 1;
    place.rows_per_rank = (place.rows + ranks - 1) / ranks;
    for (const int64_t size : place.row) place.elements_of_row *= size;
    place.offset = shard_elements_;
    padded_ = padded_ || place.rows_per_rank * ranks != place.rows;
    shard_elements_ += place.rows_per_rank * place.elements_of_row;
    places_.push_back(std::move(place));
  }
}

at::Tensor RowCut::rows_of(const at::Tensor& tensor, size_t i, int rank) const {
  return with_rows(tensor).narrow(0, places_[i].first(rank), places_[i].count(rank));
}

at::Tensor RowCut::rows_in(const at::Tensor& shard, size_t i, int rank) const {
  const Place& place = places_[i];
  std::vector<int64_t> sizes = {place.count(rank)};
  sizes.insert(sizes.end(), place.row.begin(), place.row.end());
  return shard.narrow(0, place.offset, sizes[0] * place.elements_of_row).view(sizes);
}

at::Tensor RowCut::shard_of(const at::Tensor& whole, int rank) const {
  return whole.narrow(0, shard_elements_ * rank, shard_elements_);
}

void RowCut::unpack(const at::Tensor& whole, size_t i, const at::Tensor& tensor) const {
  for (int rank = 0; rank < ranks_ && places_[i].count(rank) > 0; ++rank)
    rows_of(tensor, i, rank).copy_(rows_in(shard_of(whole, rank), i, rank));
}

void RowCut::pack(const at::Tensor& tensor, size_t i, double scale, const at::Tensor& whole) const {
  for (int rank = 0; rank < ranks_ && places_[i].count(rank) > 0; ++rank) {
    const at::Tensor from = rows_of(tensor, i, rank);
    at::Tensor to = rows_in(shard_of(whole, rank), i, rank);
    if (from.scalar_type() == to.scalar_type())
      at::mul_out(to, from, at::native::wrapped_scalar_tensor(scale));
    else
      to.copy_(from.to(at::kFloat).mul(scale));
  }
}

}  // namespace dpbench::fsdp
