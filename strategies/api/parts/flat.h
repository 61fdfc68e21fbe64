// Tensors packed into one flat buffer per dtype, so that copying or summing all of them is one operation.
#pragma once

#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/traffic.h"

namespace dpbench {

class Flat {
 public:
  // Allocates zeroed buffers, with views shaped like these tensors, on the tensors' device. Pads each buffer so that it
  // divides into `parts` equal parts.
  explicit Flat(const std::vector<at::Tensor>& like, int64_t parts = 1);

  // Returns the number of elements of each flat buffer that these tensors would need, by dtype. types: the dtype in
  // which each tensor is packed.
  static std::map<at::ScalarType, int64_t> elements(const std::vector<at::Tensor>& like,
                                                    const std::vector<at::ScalarType>& types, int64_t parts = 1);

  // Copies the tensors' values into the flat buffers, and makes each tensor a view of its place there.
  void adopt(const std::vector<at::Tensor>& tensors);

  const std::vector<at::Tensor>& views() const { return views_; }
  const std::vector<at::Tensor>& buffers() const { return buffers_; }
  // Returns the part of each flat buffer that holds the tensors with index `tensor` and above. Skips buffers that hold
  // none of these tensors.
  std::vector<at::Tensor> tail_from(size_t tensor) const;

 private:
  std::vector<at::Tensor> buffers_, views_;
};

// Return the bytes of the flat buffers (Flat) of these tensors, or of a model's trained parameters. Traffic formulas
// call them.
int64_t flat_bytes(const TrafficQuery& query, const NamedTensors& named, int64_t parts = 1);
int64_t flat_bytes(const TrafficQuery& query, int64_t parts = 1);
// Return the number of flat buffers (Flat) of these tensors, or of a model's trained parameters.
int64_t flat_buffers(const TrafficQuery& query, const NamedTensors& named);
int64_t flat_buffers(const TrafficQuery& query);

}  // namespace dpbench
