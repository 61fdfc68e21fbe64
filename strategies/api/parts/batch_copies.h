// Copies samples from host to device through a ring of pinned buffers, on a separate stream, so that copies overlap
// with the computation of the previous step.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace dpbench {

// A replica's host-to-device copier of samples. Not thread-safe.
class BatchCopies {
 public:
  // storage: the dtype in which floating-point tensors are stored on the device.
  BatchCopies(at::Device device, at::ScalarType storage);

  // Returns the tensors on the device, ready for use on the current stream. If all tensors are on the host, they are
  // transferred in one copy. Tensors that are already on the device and need no cast are returned unchanged.
  std::vector<at::Tensor> to_device(const std::vector<at::Tensor>& tensors);

  // Transfers host tensors in one copy and returns the packed device memory. The host waits only if it is more than one
  // round of the ring ahead of the device.
  at::Tensor upload(const std::vector<at::Tensor>& tensors);
  // Returns views of transferred memory, shaped like these tensors. Undefined tensors stay undefined.
  std::vector<at::Tensor> views_of(const at::Tensor& memory, const std::vector<at::Tensor>& like) const;
  int64_t bytes_of(const std::vector<at::Tensor>& like) const { return offsets_of(like).back(); }

  static bool all_on_host(const std::vector<at::Tensor>& tensors);

 private:
  struct Slot {
    explicit Slot(at::DeviceType type) : copied(type), requested(type) {}
    at::Tensor host;
    // Event recorded on the copy stream after the copy from this buffer; after it, the host may fill the buffer again.
    c10::Event copied;
    // Event on the compute stream, recorded where this stream needs the data of the latest copy from this buffer.
    c10::Event requested;
  };
  at::ScalarType stored_type(const at::Tensor& tensor) const;
  // Returns the byte offset of each tensor, then the total size.
  std::vector<int64_t> offsets_of(const std::vector<at::Tensor>& like) const;
  Slot& next_slot(int64_t bytes);
  at::Tensor copy_to_device(Slot& slot, int64_t bytes) const;

  at::Device device_;
  at::ScalarType storage_;
  std::optional<c10::Stream> stream_;  // the stream of the copies; nullopt on the CPU
  std::vector<Slot> ring_;
  int64_t slot_bytes_ = -1;
  size_t calls_ = 0;
};

}  // namespace dpbench
