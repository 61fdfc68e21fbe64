// Functions that measure and describe the difference between two tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/named_tensors.h"

namespace dpbench {

// Returns |found - expected| in the L2 norm, divided by max(|expected|, floor). Returns infinity if the shapes differ
// or if any non-finite element differs.
double relative_error(const at::Tensor& found, const at::Tensor& expected, double floor);

// Returns e.g. "index [3, 1], expected 0.25, found 0.75" for the first element whose difference is at least half of the
// largest difference; for integers, for the first element that differs.
std::string first_difference(const at::Tensor& found, const at::Tensor& expected);

// Returns the multi-dimensional index, e.g. "index [3, 1]", of the element with the row-major number `flat`.
std::string index_text(int64_t flat, at::IntArrayRef sizes);

// Returns the largest |found - expected| / bound over all elements. Returns infinity if the shapes or any non-finite
// elements differ, or if an element differs where its bound is 0.
double largest_ratio(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& bound);

// Returns the largest absolute value of an element; 0 without elements.
double largest_element(const at::Tensor& tensor);
// Returns the largest |a - b| of an element, computed in float64.
double largest_difference(const at::Tensor& a, const at::Tensor& b);

double unit_roundoff(at::ScalarType type);
double smallest_subnormal(at::ScalarType type);
// Returns Higham's bound k u / (1 - k u), for k = terms and the unit roundoff u: the rounding error of a sum, relative
// to the sum of its terms' absolute values.
double gamma(double terms, double u);

// Returns the allowed relative difference between two results of a forward or backward pass computed by different
// kernels.
double pass_bound(at::ScalarType type);
at::ScalarType coarser(at::ScalarType a, at::ScalarType b);

std::string short_number(double value, int digits = 6);
// Returns "expected X, found Y" with 6 to 17 digits, as many as needed to show that the numbers differ.
std::string expected_and_found(double expected, double found);

}  // namespace dpbench
