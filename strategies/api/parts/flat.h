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

  // Returns, for each dtype, the number of elements of the flat buffer that these tensors would need. types: for each
  // tensor, the dtype in which it is packed.
  static std::map<at::ScalarType, int64_t> elements(const std::vector<at::Tensor>& like,
                                                    const std::vector<at::ScalarType>& types, int64_t parts = 1);

  // Copies the tensors' values into the flat buffers, and makes each tensor a view of its place there.
  void adopt(const std::vector<at::Tensor>& tensors);

  const std::vector<at::Tensor>& views() const { return views_; }
  const std::vector<at::Tensor>& buffers() const { return buffers_; }
  // Returns, of each flat buffer, the part from the tensor with index `tensor` to the end. Leaves out buffers that hold
  // only tensors with lower indices.
  std::vector<at::Tensor> tail_from(size_t tensor) const;

 private:
  std::vector<at::Tensor> buffers_, views_;
};

// Return the size in bytes of the flat buffers that the class Flat would allocate for these tensors, or for all trained
// parameters of a model. Traffic formulas call these functions.
int64_t flat_bytes(const TrafficQuery& query, const NamedTensors& named, int64_t parts = 1);
int64_t flat_bytes(const TrafficQuery& query, int64_t parts = 1);
// Return how many flat buffers the class Flat would allocate for these tensors, or for all trained parameters of a
// model.
int64_t flat_buffers(const TrafficQuery& query, const NamedTensors& named);
int64_t flat_buffers(const TrafficQuery& query);

}  // namespace dpbench
