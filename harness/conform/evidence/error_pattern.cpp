#include "harness/conform/evidence/error_pattern.h"

#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"

namespace dpbench {
namespace {

// Wrong elements are reported as a range (e.g. a row) if at least this share of the range is wrong. The remaining
// elements may be correct by chance, e.g. zeros after a ReLU.
constexpr double most = 0.9;

// Returns the name of the slice that holds all wrong elements, e.g. "row 2"; an empty string if no single slice does.
std::string slice_of(const at::Tensor& wrong) {
  const at::Tensor places = wrong.nonzero();
  for (int64_t d = 0; d < wrong.dim() && wrong.dim() > 1; ++d) {
    const at::Tensor index = places.select(1, d);
    if (wrong.size(d) == 1 || index.ne(index[0]).any().item<bool>()) continue;
    const std::string number = std::to_string(index[0].item<int64_t>());
    if (wrong.dim() > 2) return "index " + number + " of dimension " + std::to_string(d);
    return (d == 0 ? "row " : "column ") + number;
  }
  return "";
}

// Returns e.g. "everything from index [3, 0] on is wrong" if nearly all elements after (or before) a row-major
// position are wrong. Otherwise returns the number of wrong elements, or an empty string if more than half are wrong.
std::string part_of(const at::Tensor& wrong) {
  const at::Tensor places = wrong.flatten().nonzero().flatten();
  const auto first = places[0].item<int64_t>(), last = places[-1].item<int64_t>();
  const auto share_of = [&](int64_t elements) {
    return static_cast<double>(places.numel()) / static_cast<double>(elements);
  };
  if (first > 0 && share_of(wrong.numel() - first) >= most)
    return "everything from " + index_text(first, wrong.sizes()) + " on is wrong";
  if (last + 1 < wrong.numel() && share_of(last + 1) >= most)
    return "everything before " + index_text(last + 1, wrong.sizes()) + " is wrong";
  if (share_of(wrong.numel()) > 0.5) return "";
  return std::to_string(places.numel()) + " of " + std::to_string(wrong.numel()) + " elements are wrong";
}

std::string ratio_at(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& wrong, double tolerance) {
  const at::Tensor f = found.masked_select(wrong), e = expected.masked_select(wrong);
  if (f.eq(0).all().item<bool>()) return ": zero";
  const double squares = e.square().sum().item<double>(), ratio = (f * e).sum().item<double>() / squares;
  if (!(squares > 0) || !((f - e * ratio).norm().item<double>() <= 10 * tolerance * f.norm().item<double>())) return "";
  return ": " + short_number(ratio) + " times the expected value";
}

}  // namespace

std::string error_pattern(const at::Tensor& found, const at::Tensor& expected, double tolerance) {
  const at::Tensor f = found.detach().to(at::kCPU, at::kDouble), e = expected.detach().to(at::kCPU, at::kDouble);
  if (f.numel() == 0) return "";
  const at::Tensor wrong = (f - e).abs().gt(e.abs().max() * tolerance);
  const auto count = wrong.sum().item<int64_t>();
  if (count == 0 || static_cast<double>(count) >= most * static_cast<double>(f.numel())) return "";
  std::string place = part_of(wrong);
  if (const std::string slice = slice_of(wrong); !slice.empty()) place = slice + " is wrong";
  if (count == 1) {
    const auto at = wrong.flatten().to(at::kByte).argmax().item<int64_t>();
    place = "the element at " + index_text(at, wrong.sizes()) + " is wrong";
  }
  return place.empty() ? "" : "only " + place + ratio_at(f, e, wrong, tolerance);
}

}  // namespace dpbench
