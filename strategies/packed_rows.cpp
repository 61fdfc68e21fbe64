#include "strategies/packed_rows.h"

#include <cstring>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace dpbench {
namespace {

constexpr int stages_of_rows = 8;
constexpr int64_t packed_alignment = 256;  // of CUDA's own allocations

// Calls each(batch's tensor) in the order in which they lie.
template <class Batches, class Each>
void for_each_tensor(Batches& micro, const Each& each) {
  for (auto& batch : micro) each(batch.input), each(batch.target), each(batch.ids);
}

int64_t place_for(int64_t bytes) { return (bytes + packed_alignment - 1) / packed_alignment * packed_alignment; }

}  // namespace

PackedRows::PackedRows(std::span<const Batch> like, at::Device device, at::ScalarType storage)
    : micro_(like.begin(), like.end()) {
  const auto kept_as = [&](const at::Tensor& tensor) {
    return tensor.is_floating_point() ? storage : tensor.scalar_type();
  };
  const auto bytes_of = [&](const at::Tensor& tensor) {
    return tensor.numel() * static_cast<int64_t>(at::elementSize(kept_as(tensor)));
  };
  int64_t bytes = 0;
  for_each_tensor(micro_, [&](const at::Tensor& tensor) { bytes += place_for(bytes_of(tensor)); });
  memory_ = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  int64_t offset = 0;
  for_each_tensor(micro_, [&](at::Tensor& tensor) {
    const int64_t here = bytes_of(tensor);
    const at::Tensor place = memory_.narrow(0, offset, here).view(kept_as(tensor)).view(tensor.sizes());
    offset += place_for(here);
    tensor = place;
  });
  for (int i = 0; i < stages_of_rows; ++i) {
    Stage& stage = stages_.emplace_back();
    stage.host = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(!device.is_cpu()));
    if (!device.is_cpu()) stage.copied.emplace(device.type());
  }
}

PackedRows::Stage& PackedRows::next_stage() {
  Stage& stage = stages_[loads_++ % stages_.size()];
  if (stage.copied && loads_ > stages_.size()) stage.copied->synchronize();
  return stage;
}

void PackedRows::load(std::span<const Batch> micro) {
  Stage& stage = next_stage();
  auto* const to = static_cast<char*>(stage.host.data_ptr());
  const auto* const base = static_cast<const char*>(memory_.data_ptr());
  for (size_t i = 0; i < micro.size(); ++i) {
    const auto put = [&](const at::Tensor& from, const at::Tensor& place) {
      const at::Tensor rows = from.to(at::kCPU, place.scalar_type()).contiguous();
      std::memcpy(to + (static_cast<const char*>(place.data_ptr()) - base), rows.data_ptr(), place.nbytes());
    };
    put(micro[i].input, micro_[i].input), put(micro[i].target, micro_[i].target), put(micro[i].ids, micro_[i].ids);
  }
  memory_.copy_(stage.host, /*non_blocking=*/true);
  if (stage.copied)
    stage.copied->record(c10::impl::VirtualGuardImpl(memory_.device().type()).getStream(memory_.device()));
}

}  // namespace dpbench
