// Tensors laid end to end, one buffer per dtype: copying or summing all of them is one operation.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

class Flat {
 public:
  // Zeroed room shaped like these tensors, on their device. Each buffer can be cut into so many equal parts.
  explicit Flat(const std::vector<at::Tensor>& like, int64_t parts = 1);

  // Copies the tensors' values in and makes each of them a view of its place here.
  void adopt(const std::vector<at::Tensor>& tensors);

  const std::vector<at::Tensor>& views() const { return views_; }
  const std::vector<at::Tensor>& buffers() const { return buffers_; }
  // What lies in the buffers from this tensor on; a buffer without any is left out.
  std::vector<at::Tensor> from(size_t tensor) const;

 private:
  std::vector<at::Tensor> buffers_, views_;
};

}  // namespace dpbench
