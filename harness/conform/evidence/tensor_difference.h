// Measures and descriptions of the difference between tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/named_tensors.h"

namespace dpbench {

// |found - expected| in the L2 norm, divided by max(|expected|, floor). Infinite if only one of an element pair is
// finite.
double relative_error(const at::Tensor& found, const at::Tensor& expected, double floor);

// Returns e.g. "index [3, 1], expected 0.25, found 0.75" for the first element with at least half of the largest
// difference.
std::string first_difference(const at::Tensor& found, const at::Tensor& expected);

// Returns e.g. "index [3, 1]" for the row-major element number `flat`.
std::string index_text(int64_t flat, at::IntArrayRef sizes);

// Largest |found - expected| / bound over the elements; infinite for a difference where the bound is 0.
double largest_ratio(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& bound);

double unit_roundoff(at::ScalarType type);
double smallest_subnormal(at::ScalarType type);
double gamma(double terms, double u);  // k u / (1 - k u)

// Bound for the relative difference of a model pass computed by different kernels.
double pass_bound(at::ScalarType type);
at::ScalarType coarser(at::ScalarType a, at::ScalarType b);

std::string short_number(double value);

}  // namespace dpbench
