// Measures of difference, and the words for where one is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/named_tensors.h"

namespace dpbench {

// |found - expected| in the L2 norm over max(|expected|, floor). Non-finite where the other is not: infinite.
double relative_error(const at::Tensor& found, const at::Tensor& expected, double floor);

// "index [3, 1], expected 0.25, found 0.75" at the first element that is off by more than half of the largest
// difference.
std::string first_difference(const at::Tensor& found, const at::Tensor& expected);

// "index [3, 1]": of the element that is number `flat` in the order of memory.
std::string index_text(int64_t flat, at::IntArrayRef sizes);

// Largest of |found - expected| / bound over the elements; bound 0 and a difference: infinite.
double largest_ratio(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& bound);

double unit_roundoff(at::ScalarType type);
double smallest_subnormal(at::ScalarType type);
double gamma(double terms, double u);  // k u / (1 - k u)

// By how much, relative to its norm, what a pass through a model gives may differ where other kernels compute it.
double pass_bound(at::ScalarType type);
at::ScalarType coarser(at::ScalarType a, at::ScalarType b);

std::string short_number(double value);

}  // namespace dpbench
