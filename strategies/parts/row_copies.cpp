#include "strategies/parts/row_copies.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace dpbench {
namespace {

constexpr size_t slots_of_rows = 8;
constexpr int64_t row_alignment = 256;  // of CUDA's own allocations

at::TensorOptions row_bytes_on(at::Device device) { return at::TensorOptions().dtype(at::kByte).device(device); }

}  // namespace

RowCopies::RowCopies(at::Device device, at::ScalarType storage) : device_(device), storage_(storage) {
  if (!device_.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
  ring_.reserve(slots_of_rows);
  for (size_t i = 0; i < slots_of_rows; ++i) ring_.emplace_back(device_.type());
}

bool RowCopies::all_on_host(const std::vector<at::Tensor>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const at::Tensor& one) { return !one.defined() || one.is_cpu(); });
}

at::ScalarType RowCopies::kept_as(const at::Tensor& tensor) const {
  return tensor.is_floating_point() ? storage_ : tensor.scalar_type();
}

std::vector<int64_t> RowCopies::places_of(const std::vector<at::Tensor>& like) const {
  std::vector<int64_t> places = {0};
  for (const at::Tensor& one : like) {
    const int64_t bytes = one.defined() ? one.numel() * static_cast<int64_t>(at::elementSize(kept_as(one))) : 0;
    places.push_back(places.back() + (bytes + row_alignment - 1) / row_alignment * row_alignment);
  }
  return places;
}

std::vector<at::Tensor> RowCopies::views_of(const at::Tensor& memory, const std::vector<at::Tensor>& like) const {
  // Tensors for themselves: what is written to one is no change of the others, which autograd may have saved.
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::vector<int64_t> places = places_of(like);
  std::vector<at::Tensor> views(like.size());
  for (size_t i = 0; i < like.size(); ++i) {
    if (!like[i].defined()) continue;
    const auto bytes = like[i].numel() * static_cast<int64_t>(at::elementSize(kept_as(like[i])));
    views[i] = memory.narrow(0, places[i], bytes).view(kept_as(like[i])).view(like[i].sizes());
  }
  return views;
}

std::vector<at::Tensor> RowCopies::to_device(const std::vector<at::Tensor>& rows) {
  if (all_on_host(rows)) return views_of(bring(rows), rows);
  std::vector<at::Tensor> there;
  for (const at::Tensor& one : rows)
    there.push_back(one.defined() ? one.to(device_, kept_as(one), /*non_blocking=*/true) : one);
  return there;
}

at::Tensor RowCopies::bring(const std::vector<at::Tensor>& rows) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::vector<int64_t> places = places_of(rows);
  Slot& slot = next_slot(places.back());
  auto* const to = static_cast<char*>(slot.host.data_ptr());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].defined()) continue;
    const at::Tensor row = rows[i].to(kept_as(rows[i])).contiguous();
    std::memcpy(to + places[i], row.const_data_ptr(), row.nbytes());
  }
  return stream_ ? sent(slot, places.back()) : slot.host.narrow(0, 0, places.back()).clone();
}

RowCopies::Slot& RowCopies::next_slot(int64_t bytes) {
  if (bytes > room_) {  // all at once: pinning memory is slow, and may wait for the device
    for (Slot& slot : ring_) slot.host = at::empty({bytes}, row_bytes_on(at::kCPU).pinned_memory(device_.is_cuda()));
    room_ = bytes;
  }
  Slot& slot = ring_[calls_++ % ring_.size()];
  slot.copied.synchronize();
  return slot;
}

at::Tensor RowCopies::sent(Slot& slot, int64_t bytes) const {
  const c10::impl::VirtualGuardImpl device(device_.type());
  const c10::Stream computing = device.getStream(device_);
  // At most a round ahead of what computes: else the device would hold the rows of as many steps as can be launched.
  slot.asked.block(*stream_);
  at::Tensor memory;
  {
    const c10::StreamGuard guard(
        *stream_);  // the memory too: what computes may still read what was last freed on its own stream
    memory = at::empty({bytes}, row_bytes_on(device_));
    memory.copy_(slot.host.narrow(0, 0, bytes), /*non_blocking=*/true);
  }
  slot.copied.record(*stream_);
  slot.copied.block(computing);
  slot.asked.record(computing);
  // Freed at any time from now on, it is taken for other rows only when the computing stream is past that point.
  device.recordDataPtrOnStream(memory.storage().data_ptr(), computing);
  return memory;
}

}  // namespace dpbench
