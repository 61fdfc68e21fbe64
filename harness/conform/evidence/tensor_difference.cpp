#include "harness/conform/evidence/tensor_difference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// Allowed rounding error of a forward or backward pass, in units of the dtype's roundoff. The limit of float16 and
// bfloat16 is smaller than that of other dtypes.
constexpr double pass_roundings = 128, pass_roundings_of_halves = 32;

at::Tensor wide(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU, at::kDouble).contiguous(); }

// True where the elements of both tensors are equal or both are NaN.
at::Tensor equal_elements(const at::Tensor& f, const at::Tensor& e) {
  return f.eq(e).logical_or(f.isnan().logical_and(e.isnan()));
}

// Returns a relative error: `difference`, the norm of the difference from the expected tensor `e`, divided by the norm
// of `e`, or by `floor` if that is larger.
double share_of(double difference, const at::Tensor& e, double floor) {
  return difference == 0 ? 0 : difference / std::max(e.norm().item<double>(), floor);
}

// Returns the relative error of the finite elements; infinite if a non-finite element differs between the tensors, or
// if the norm of the difference is too large for a double.
double relative_error_of_finite(const at::Tensor& f, const at::Tensor& e, double floor) {
  const at::Tensor finite = f.isfinite().logical_and(e.isfinite()), broken = finite.logical_not();
  if (!finite.logical_or(equal_elements(f, e)).all().item<bool>()) return infinite;
  const double difference = (f - e).masked_fill(broken, 0).norm().item<double>();
  return std::isfinite(difference) ? share_of(difference, e.masked_fill(broken, 0), floor) : infinite;
}

}  // namespace

double relative_error(const at::Tensor& found, const at::Tensor& expected, double floor) {
  if (!found.defined() || found.sizes() != expected.sizes()) return infinite;
  const at::Tensor f = wide(found), e = wide(expected);
  const double difference = (f - e).norm().item<double>();
  return std::isfinite(difference) ? share_of(difference, e, floor) : relative_error_of_finite(f, e, floor);
}

std::string first_difference(const at::Tensor& found, const at::Tensor& expected) {
  if (!found.defined()) return "nothing was reported";
  if (!expected.defined()) return "nothing was expected";
  if (found.sizes() != expected.sizes())
    return "expected shape " + c10::str(expected.sizes()) + ", found " + c10::str(found.sizes());
  if (at::isIntegralType(found.scalar_type(), /*includeBool=*/true) && found.scalar_type() == expected.scalar_type()) {
    // Integers are compared without conversion to float64, which may map different large integers to the same value.
    const at::Tensor places = found.ne(expected).flatten().nonzero();
    if (places.numel() == 0) return "no element";
    const auto flat = places[0].item<int64_t>();
    return index_text(flat, found.sizes()) + ", expected " + std::to_string(expected.flatten()[flat].item<int64_t>()) +
           ", found " + std::to_string(found.flatten()[flat].item<int64_t>());
  }
  const at::Tensor f = wide(found).flatten(), e = wide(expected).flatten();
  at::Tensor difference = (f - e).abs();
  const at::Tensor broken = f.isfinite().ne(e.isfinite());
  difference = difference.nan_to_num(0, 0, 0).masked_fill(broken, std::numeric_limits<double>::max());
  if (difference.numel() == 0) return "no element";
  const double half = difference.max().item<double>() / 2;
  const int64_t flat = difference.ge(half).to(at::kByte).argmax().item<int64_t>();
  const double expects = e[flat].item<double>(), finds = f[flat].item<double>();
  return index_text(flat, found.sizes()) + ", " + expected_and_found(expects, finds);
}

std::string index_text(int64_t flat, at::IntArrayRef sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = index.size(); d-- > 0; flat /= sizes[d]) index[d] = flat % sizes[d];
  return "index " + c10::str(c10::IntArrayRef(index));
}

double largest_ratio(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& bound) {
  if (!found.defined() || found.sizes() != expected.sizes()) return infinite;
  const at::Tensor f = wide(found), e = wide(expected);
  if (f.numel() == 0) return 0;
  const at::Tensor both = f.isfinite().logical_and(e.isfinite()), same = equal_elements(f, e);
  if (!both.logical_or(same).all().item<bool>()) return infinite;
  const at::Tensor ratio = (f - e).abs().div(wide(bound)).masked_fill(same, 0);
  return ratio.max().item<double>();
}

double largest_element(const at::Tensor& tensor) { return tensor.numel() ? tensor.abs().max().item<double>() : 0; }

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return largest_element(a.to(at::kDouble) - b.to(at::kDouble));
}

double unit_roundoff(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 0x1p-53;
    case at::kHalf:
      return 0x1p-11;
    case at::kBFloat16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

double smallest_subnormal(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::denorm_min();
    case at::kHalf:
      return 0x1p-24;
    case at::kBFloat16:
      return 0x1p-133;
    default:
      return 0x1p-149;
  }
}

double gamma(double terms, double u) { return terms * u / (1 - terms * u); }

double pass_bound(at::ScalarType type) {
  return (at::isReducedFloatingType(type) ? pass_roundings_of_halves : pass_roundings) * unit_roundoff(type);
}

at::ScalarType coarser(at::ScalarType a, at::ScalarType b) { return unit_roundoff(a) > unit_roundoff(b) ? a : b; }

std::string short_number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string expected_and_found(double expected, double found) {
  int digits = 6;
  while (digits < 17 && short_number(expected, digits) == short_number(found, digits)) ++digits;
  return "expected " + short_number(expected, digits) + ", found " + short_number(found, digits);
}

}  // namespace dpbench
