// Selects the elements of each tensor of a large model that an audit (a check between timed blocks) compares with the
// expected values. They are spread over the whole tensor, so that a wrong piece of it contains some of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct Sample {
  int64_t most_elements = 0;  // number of elements selected from each larger tensor; 0: all elements
  uint64_t seed = 0;

  bool takes_all(int64_t elements) const { return most_elements == 0 || elements <= most_elements; }
  // Returns the distance between selected elements of a tensor of this size. It is odd, because rows mostly have an
  // even length, and an even distance would select few of their columns.
  int64_t stride(int64_t elements) const { return takes_all(elements) ? 1 : (elements / most_elements - 1) | 1; }
  // Returns the index of the first selected element of a tensor of this size. In a quarter of the audits it is the
  // tensor's first one, and in a quarter the last selected element is the tensor's last one: mistakes at the ends are
  // frequent. A parameter, its gradient and its optimizer state have the same size, so the same elements are selected
  // in each.
  int64_t first(int64_t elements) const {
    const int64_t last = elements - span(elements);
    if (takes_all(elements) || seed % 4 == 0) return 0;
    return seed % 4 == 1 ? last : static_cast<int64_t>(seed / 4 % static_cast<uint64_t>(last + 1));
  }
  // Returns the selected elements as a flat tensor. Returns the whole tensor if it is undefined or small.
  at::Tensor of(const at::Tensor& tensor) const {
    if (!tensor.defined() || takes_all(tensor.numel())) return tensor;
    const int64_t elements = tensor.numel(), from = first(elements);
    return tensor.reshape({-1}).slice(0, from, from + span(elements), stride(elements));
  }

 private:
  // Returns the number of elements from the first selected one to the last.
  int64_t span(int64_t elements) const {
    return takes_all(elements) ? elements : (most_elements - 1) * stride(elements) + 1;
  }
};

}  // namespace dpbench
