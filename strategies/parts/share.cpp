#include "strategies/parts/share.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

// In the header that is sent before a tensor, this number of dimensions means that the tensor is undefined.
constexpr int64_t undefined = -1;

}  // namespace

at::Tensor header_of(const at::Tensor& tensor) {
  const at::Tensor header = at::zeros({header_words}, at::kLong);
  auto* words = header.data_ptr<int64_t>();
  if (!tensor.defined()) {
    words[1] = undefined;
    return header;
  }
  if (tensor.dim() > header_dimensions)
    throw std::runtime_error("a tensor between two ranks has more than " + std::to_string(header_dimensions) +
                             " dimensions");
  words[0] = static_cast<int64_t>(tensor.scalar_type());
  words[1] = tensor.dim();
  for (int64_t d = 0; d < tensor.dim(); ++d) words[2 + d] = tensor.size(d);
  return header;
}

at::Tensor share(const at::Tensor& tensor, int root, const Axis& axis, at::Device device) {
  if (axis.size == 1) return tensor;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  const bool mine = axis.rank == root;
  std::vector<at::Tensor> header = {(mine ? header_of(tensor) : at::zeros({header_words}, at::kLong)).to(device)};
  axis.group->broadcast(header, options)->wait();
  const at::Tensor words = header[0].cpu();
  const auto* data = words.const_data_ptr<int64_t>();
  if (data[1] == undefined) return {};
  std::vector<at::Tensor> tensors = {
      mine ? tensor.detach().contiguous()
           : at::empty(at::IntArrayRef(data + 2, static_cast<size_t>(data[1])),
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(data[0])).device(device))};
  axis.group->broadcast(tensors, options)->wait();
  return tensors[0];
}

}  // namespace dpbench
