#include "strategies/api/parts/flat.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "strategies/api/trained_parameters.h"

namespace dpbench {
namespace {

// Alignment of tensors in a flat buffer, in elements: 16 float32 values fill the widest vector register (AVX-512).
constexpr int64_t aligned_to = 16;

int64_t padded(int64_t numel) { return (numel + aligned_to - 1) / aligned_to * aligned_to; }

at::Tensor view_at(const at::Tensor& buffer, const at::Tensor& like, int64_t offset) {
  if (like.is_non_overlapping_and_dense()) return buffer.as_strided(like.sizes(), like.strides(), offset);
  return buffer.narrow(0, offset, like.numel()).view(like.sizes());
}

std::map<at::ScalarType, int64_t> elements_of(const TrafficQuery& query, const NamedTensors& named, int64_t parts) {
  std::vector<at::Tensor> tensors;
  std::vector<at::ScalarType> types;
  for (const auto& [name, tensor] : named) {
    tensors.push_back(tensor);
    types.push_back(query.stored(tensor));
  }
  return Flat::elements(tensors, types, parts);
}

}  // namespace

std::map<at::ScalarType, int64_t> Flat::elements(const std::vector<at::Tensor>& like,
                                                 const std::vector<at::ScalarType>& types, int64_t parts) {
  std::map<at::ScalarType, int64_t> room;
  for (size_t i = 0; i < like.size(); ++i) room[types[i]] += padded(like[i].numel());
  const int64_t part = aligned_to * parts;
  for (auto& [type, numel] : room) numel = (numel + part - 1) / part * part;
  return room;
}

Flat::Flat(const std::vector<at::Tensor>& like, int64_t parts) {
  std::map<at::ScalarType, int64_t> room;
  std::vector<int64_t> offsets;
  std::vector<at::ScalarType> types;
  for (const at::Tensor& tensor : like) {
    types.push_back(tensor.scalar_type());
    offsets.push_back(room[types.back()]);
    room[types.back()] += padded(tensor.numel());
  }
  std::map<at::ScalarType, at::Tensor> buffer_of;
  for (const auto& [type, numel] : elements(like, types, parts)) {
    buffers_.push_back(at::zeros({numel}, at::TensorOptions().dtype(type).device(like[0].device())));
    buffer_of[type] = buffers_.back();
  }
  for (size_t i = 0; i < like.size(); ++i)
    views_.push_back(view_at(buffer_of[like[i].scalar_type()], like[i], offsets[i]));
}

int64_t flat_bytes(const TrafficQuery& query, int64_t parts) {
  return flat_bytes(query, trained_parameters(query.model), parts);
}

int64_t flat_bytes(const TrafficQuery& query, const NamedTensors& named, int64_t parts) {
  int64_t bytes = 0;
  for (const auto& [type, elements] : elements_of(query, named, parts))
    bytes += elements * static_cast<int64_t>(c10::elementSize(type));
  return bytes;
}

int64_t flat_buffers(const TrafficQuery& query) { return flat_buffers(query, trained_parameters(query.model)); }

int64_t flat_buffers(const TrafficQuery& query, const NamedTensors& named) {
  return std::ranges::count_if(elements_of(query, named, 1), [](const auto& one) { return one.second > 0; });
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
