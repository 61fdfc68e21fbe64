#include "strategies/graphs/packed_batches.h"

#include <ATen/ATen.h>

namespace dpbench {
namespace {

std::vector<at::Tensor> tensors_in(std::span<const Batch> micro) {
  std::vector<at::Tensor> tensors;
  for (const Batch& batch : micro) tensors.insert(tensors.end(), {batch.input, batch.target, batch.ids});
  return tensors;
}

}  // namespace

PackedBatches::PackedBatches(std::span<const Batch> like, at::Device device, at::ScalarType storage)
    : copies_(device, storage) {
  const std::vector<at::Tensor> tensors = tensors_in(like);
  memory_ = at::zeros({copies_.bytes_of(tensors)}, at::TensorOptions().dtype(at::kByte).device(device));
  places_ = copies_.views_of(memory_, tensors);
  for (size_t i = 0; i < places_.size(); i += 3) micro_.push_back({places_[i], places_[i + 1], places_[i + 2]});
}

void PackedBatches::load(std::span<const Batch> micro) {
  const std::vector<at::Tensor> tensors = tensors_in(micro);
  if (BatchCopies::all_on_host(tensors)) {
    memory_.copy_(copies_.upload(tensors), /*non_blocking=*/true);
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) places_[i].copy_(tensors[i], /*non_blocking=*/true);
}

}  // namespace dpbench
