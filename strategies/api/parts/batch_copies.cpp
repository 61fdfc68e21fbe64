#include "strategies/api/parts/batch_copies.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace dpbench {
namespace {

constexpr size_t slots_of_samples = 8;
// Alignment of tensors in device memory in bytes, the same as that of CUDA's own allocations.
constexpr int64_t row_alignment = 256;

at::TensorOptions row_bytes_on(at::Device device) { return at::TensorOptions().dtype(at::kByte).device(device); }

}  // namespace

BatchCopies::BatchCopies(at::Device device, at::ScalarType storage) : device_(device), storage_(storage) {
  if (!device_.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
  ring_.reserve(slots_of_samples);
  for (size_t i = 0; i < slots_of_samples; ++i) ring_.emplace_back(device_.type());
}

bool BatchCopies::all_on_host(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& one) { return !one.defined() || one.is_cpu(); });
}

at::ScalarType BatchCopies::stored_type(const at::Tensor& tensor) const {
  return tensor.is_floating_point() ? storage_ : tensor.scalar_type();
}

std::vector<int64_t> BatchCopies::offsets_of(const std::vector<at::Tensor>& like) const {
  std::vector<int64_t> offsets = {0};
  for (const at::Tensor& one : like) {
    const int64_t bytes = one.defined() ? one.numel() * static_cast<int64_t>(at::elementSize(stored_type(one))) : 0;
    offsets.push_back(offsets.back() + (bytes + row_alignment - 1) / row_alignment * row_alignment);
  }
  return offsets;
}

std::vector<at::Tensor> BatchCopies::views_of(const at::Tensor& memory, const std::vector<at::Tensor>& like) const {
  // Makes views that autograd treats as independent tensors. Otherwise a write to one view would increment the version
  // counter of the others, and autograd would refuse a backward pass that had saved them.
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::vector<int64_t> offsets = offsets_of(like);
  std::vector<at::Tensor> views(like.size());
  for (size_t i = 0; i < like.size(); ++i) {
    if (!like[i].defined()) continue;
    const auto bytes = like[i].numel() * static_cast<int64_t>(at::elementSize(stored_type(like[i])));
    views[i] = memory.narrow(0, offsets[i], bytes).view(stored_type(like[i])).view(like[i].sizes());
  }
  return views;
}

std::vector<at::Tensor> BatchCopies::to_device(const std::vector<at::Tensor>& tensors) {
  if (all_on_host(tensors)) return views_of(upload(tensors), tensors);
  std::vector<at::Tensor> there;
  for (const at::Tensor& one : tensors)
    there.push_back(one.defined() ? one.to(device_, stored_type(one), /*non_blocking=*/true) : one);
  return there;
}

at::Tensor BatchCopies::upload(const std::vector<at::Tensor>& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::vector<int64_t> offsets = offsets_of(tensors);
  Slot& slot = next_slot(offsets.back());
  auto* const to = static_cast<char*>(slot.host.data_ptr());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const at::Tensor one = tensors[i].to(stored_type(tensors[i])).contiguous();
    std::memcpy(to + offsets[i], one.const_data_ptr(), one.nbytes());
  }
  return stream_ ? copy_to_device(slot, offsets.back()) : slot.host.narrow(0, 0, offsets.back()).clone();
}

BatchCopies::Slot& BatchCopies::next_slot(int64_t bytes) {
  // All pinned buffers of the ring grow at the same time: pinning memory is slow and may synchronise the device, so it
  // should happen rarely.
  if (bytes > slot_bytes_) {
    for (Slot& slot : ring_) slot.host = at::empty({bytes}, row_bytes_on(at::kCPU).pinned_memory(device_.is_cuda()));
    slot_bytes_ = bytes;
  }
  Slot& slot = ring_[calls_++ % ring_.size()];
  slot.copied.synchronize();
  return slot;
}

at::Tensor BatchCopies::copy_to_device(Slot& slot, int64_t bytes) const {
  const c10::impl::VirtualGuardImpl device(device_.type());
  const c10::Stream computing = device.getStream(device_);
  // Delays the copy until the compute stream has reached the point where it needed the previous copy from this pinned
  // buffer. Otherwise the host could enqueue copies many steps ahead, and each would hold device memory.
  slot.requested.block(*stream_);
  at::Tensor memory;
  {
    // The device memory is allocated on the copy stream. Memory allocated on the compute stream could be memory just
    // freed there, which kernels of that stream may still be reading.
    const c10::StreamGuard guard(*stream_);
    memory = at::empty({bytes}, row_bytes_on(device_));
    memory.copy_(slot.host.narrow(0, 0, bytes), /*non_blocking=*/true);
  }
  slot.copied.record(*stream_);
  slot.copied.block(computing);
  slot.requested.record(computing);
  // Tells the allocator that the compute stream reads this device memory too. After the memory is freed, it is reused
  // only when the compute stream has reached this point.
  device.recordDataPtrOnStream(memory.storage().data_ptr(), computing);
  return memory;
}

}  // namespace dpbench
