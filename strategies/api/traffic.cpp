#include "strategies/api/traffic.h"

namespace dpbench {

at::ScalarType TrafficQuery::stored(const at::Tensor& tensor) const {
  return dtype == at::kDouble && tensor.is_floating_point() ? at::kDouble : tensor.scalar_type();
}

int64_t TrafficQuery::element_bytes(bool cast) const {
  return static_cast<int64_t>(c10::elementSize(dtype == at::kBFloat16 && !cast ? at::kFloat : dtype));
}

int64_t TrafficQuery::bytes_of(const NamedTensors& tensors) const {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors)
    bytes += tensor.numel() * static_cast<int64_t>(c10::elementSize(stored(tensor)));
  return bytes;
}

}  // namespace dpbench
