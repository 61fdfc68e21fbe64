#include "workloads/base/joined_samples.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

at::IntArrayRef sample_shape(const at::Tensor& samples) {
  return samples.dim() == 0 ? at::IntArrayRef() : samples.sizes().slice(1);
}

}  // namespace

bool same_sample_shapes(const std::vector<at::Tensor>& parts) {
  return std::ranges::all_of(parts,
                             [&](const at::Tensor& part) { return sample_shape(part) == sample_shape(parts[0]); });
}

at::Tensor joined_samples(const std::vector<at::Tensor>& parts) {
  const bool same_dim =
      std::ranges::all_of(parts, [&](const at::Tensor& part) { return part.dim() == parts[0].dim(); });
  if (!same_dim || same_sample_shapes(parts)) return at::cat(parts);
  std::vector<int64_t> largest = parts[0].sizes().vec();
  for (const at::Tensor& part : parts)
    for (size_t dim = 1; dim < largest.size(); ++dim) largest[dim] = std::max(largest[dim], part.sizes()[dim]);
  std::vector<at::Tensor> padded;
  for (const at::Tensor& part : parts) {
    std::vector<int64_t> zeros;  // for each dimension, last first: how many in front and behind
    for (size_t dim = largest.size() - 1; dim > 0; --dim)
      zeros.insert(zeros.end(), {0, largest[dim] - part.sizes()[dim]});
    padded.push_back(at::constant_pad_nd(part, zeros));
  }
  return at::cat(padded);
}

}  // namespace dpbench
