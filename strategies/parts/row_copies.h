// Rows on their way from the host to a device: through pinned memory that stays, over a stream of their own, so that
// the next step's travel while this one computes.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace dpbench {

// For one thread at a time.
class RowCopies {
 public:
  // Floating point arrives as `storage`.
  RowCopies(at::Device device, at::ScalarType storage);

  // These tensors on the device, as if the current stream had made them. Those of the host come together in one copy;
  // one that is there already, in its type, is given back as it is.
  std::vector<at::Tensor> to_device(const std::vector<at::Tensor>& rows);

  // The same in two parts, for who wants the memory as a whole. All of them must lie on the host. The host waits only
  // where it is more than a round of the ring ahead of the device.
  at::Tensor bring(const std::vector<at::Tensor>& rows);
  // Tensors like these as they lie in memory that was brought; an undefined one stays so.
  std::vector<at::Tensor> views_of(const at::Tensor& memory, const std::vector<at::Tensor>& like) const;
  int64_t bytes_of(const std::vector<at::Tensor>& like) const { return places_of(like).back(); }

  static bool all_on_host(const std::vector<at::Tensor>& rows);

 private:
  struct Slot {
    explicit Slot(at::DeviceType type) : copied(type), asked(type) {}
    at::Tensor host;
    c10::Event copied;  // on the stream of the copies: the memory may be filled again
    c10::Event asked;   // on the stream that computes: it was here when the rows were asked for
  };
  at::ScalarType kept_as(const at::Tensor& tensor) const;
  // Where each begins, and at the end the bytes of all.
  std::vector<int64_t> places_of(const std::vector<at::Tensor>& like) const;
  Slot& next_slot(int64_t bytes);
  at::Tensor sent(Slot& slot, int64_t bytes) const;

  at::Device device_;
  at::ScalarType storage_;
  std::optional<c10::Stream> stream_;  // none on the CPU
  std::vector<Slot> ring_;
  int64_t room_ = -1;  // of each slot
  size_t calls_ = 0;
};

}  // namespace dpbench
