#include "strategies/parts/flat.h"

#include <map>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

// Alignment of tensors in elements, so that every view starts at a multiple of a vector register.
constexpr int64_t aligned_to = 16;

int64_t padded(int64_t numel) { return (numel + aligned_to - 1) / aligned_to * aligned_to; }

at::Tensor view_at(const at::Tensor& buffer, const at::Tensor& like, int64_t offset) {
  if (like.is_non_overlapping_and_dense()) return buffer.as_strided(like.sizes(), like.strides(), offset);
  return buffer.narrow(0, offset, like.numel()).view(like.sizes());
}

}  // namespace

Flat::Flat(const std::vector<at::Tensor>& like, int64_t parts) {
  std::map<at::ScalarType, int64_t> room;
  std::vector<int64_t> offsets;
  for (const at::Tensor& tensor : like) {
    offsets.push_back(room[tensor.scalar_type()]);
    room[tensor.scalar_type()] += padded(tensor.numel());
  }
  std::map<at::ScalarType, at::Tensor> buffer_of;
  for (const auto& [type, numel] : room) {
    const int64_t part = aligned_to * parts;
    buffers_.push_back(
        at::zeros({(numel + part - 1) / part * part}, at::TensorOptions().dtype(type).device(like[0].device())));
    buffer_of[type] = buffers_.back();
  }
  for (size_t i = 0; i < like.size(); ++i)
    views_.push_back(view_at(buffer_of[like[i].scalar_type()], like[i], offsets[i]));
}

void Flat::adopt(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors.size(); ++i) {
    views_[i].copy_(tensors[i]);
    at::Tensor(tensors[i]).set_data(views_[i]);
  }
}

std::vector<at::Tensor> Flat::tail_from(size_t tensor) const {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& buffer : buffers_)
    for (size_t i = tensor; i < views_.size(); ++i) {
      if (!views_[i].is_alias_of(buffer)) continue;
      const int64_t begin = views_[i].storage_offset();
      if (begin < buffer.numel()) parts.push_back(buffer.narrow(0, begin, buffer.numel() - begin));
      break;
    }
  return parts;
}

}  // namespace dpbench
