// Selects the elements of each tensor of a large model that an audit (a check between timed blocks) compares with the
// expected values.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct Sample {
  int64_t most_elements = 0;  // maximum number of elements selected from each tensor; 0: all
  uint64_t seed = 0;

  bool takes_all(int64_t elements) const { return most_elements == 0 || elements <= most_elements; }
  // Returns the index of the first selected element of a tensor of this size; the other selected elements follow it.
  // A parameter, its gradient and its optimizer state have the same size, so the same elements are selected in each.
  int64_t first(int64_t elements) const {
    if (takes_all(elements)) return 0;
    return static_cast<int64_t>(seed % static_cast<uint64_t>(elements - most_elements + 1));
  }
  // Returns the selected elements as a flat tensor. Returns the whole tensor if it is undefined or small.
  at::Tensor of(const at::Tensor& tensor) const {
    if (!tensor.defined() || takes_all(tensor.numel())) return tensor;
    const int64_t from = first(tensor.numel());
    return tensor.reshape({-1}).slice(0, from, from + most_elements);
  }
};

}  // namespace dpbench
