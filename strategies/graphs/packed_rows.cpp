#include "strategies/graphs/packed_rows.h"

#include <ATen/ATen.h>

namespace dpbench {
namespace {

std::vector<at::Tensor> rows_in(std::span<const Batch> micro) {
  std::vector<at::Tensor> rows;
  for (const Batch& batch : micro) rows.insert(rows.end(), {batch.input, batch.target, batch.ids});
  return rows;
}

}  // namespace

PackedRows::PackedRows(std::span<const Batch> like, at::Device device, at::ScalarType storage)
    : copies_(device, storage) {
  const std::vector<at::Tensor> rows = rows_in(like);
  memory_ = at::zeros({copies_.bytes_of(rows)}, at::TensorOptions().dtype(at::kByte).device(device));
  places_ = copies_.views_of(memory_, rows);
  for (size_t i = 0; i < places_.size(); i += 3) micro_.push_back({places_[i], places_[i + 1], places_[i + 2]});
}

void PackedRows::load(std::span<const Batch> micro) {
  const std::vector<at::Tensor> rows = rows_in(micro);
  if (RowCopies::all_on_host(rows)) {
    memory_.copy_(copies_.upload(rows), /*non_blocking=*/true);
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) places_[i].copy_(rows[i], /*non_blocking=*/true);
}

}  // namespace dpbench
