#include "strategies/pipeline/links.h"

#include <limits>
#include <stdexcept>

#include <ATen/ATen.h>

namespace dpbench::pipeline {
namespace {

constexpr int64_t most_dimensions = 8, header_words = most_dimensions + 2;  // dtype, dimensions, sizes
constexpr int64_t undefined = -1;                                           // number of dimensions

at::Tensor header_of(const at::Tensor& tensor) {
  const at::Tensor header = at::zeros({header_words}, at::kLong);
  auto* words = header.data_ptr<int64_t>();
  if (!tensor.defined()) {
    words[1] = undefined;
    return header;
  }
  if (tensor.dim() > most_dimensions)
    throw std::runtime_error("pp: a tensor between two stages has more than " + std::to_string(most_dimensions) +
                             " dimensions");
  words[0] = static_cast<int64_t>(tensor.scalar_type());
  words[1] = tensor.dim();
  for (int64_t d = 0; d < tensor.dim(); ++d) words[2 + d] = tensor.size(d);
  return header;
}

}  // namespace

at::Tensor Links::space(const Shape& shape) const {
  const auto options = at::TensorOptions().dtype(shape.dtype).device(device_);
  if (poison_ && at::isFloatingType(shape.dtype))
    return at::full(shape.sizes, std::numeric_limits<double>::quiet_NaN(), options);
  return at::empty(shape.sizes, options);
}

Transfer Links::send(const at::Tensor& tensor, int to, int tag, const Cargo& cargo) {
  if (told_.insert(cargo).second) {
    std::vector<at::Tensor> header = {header_of(tensor).to(device_)};
    axis_.group->send(header, to, tag)->wait();
  }
  return send_like(tensor, to, tag);
}

Transfer Links::receive(int from, int tag, const Cargo& cargo) {
  auto known = known_.find(cargo);
  if (known == known_.end()) {
    std::vector<at::Tensor> header = {at::zeros({header_words}, at::TensorOptions().dtype(at::kLong).device(device_))};
    axis_.group->recv(header, from, tag)->wait();
    const at::Tensor words = header[0].cpu();
    const auto* data = words.const_data_ptr<int64_t>();
    known = known_.emplace(cargo, Shape{static_cast<at::ScalarType>(data[0]), {data + 2, data + 2 + data[1]}}).first;
  }
  std::vector<at::Tensor> tensors = {space(known->second)};
  auto work = axis_.group->recv(tensors, from, tag);
  return {tensors[0], std::move(work)};
}

Transfer Links::send_like(const at::Tensor& tensor, int to, int tag) {
  std::vector<at::Tensor> tensors = {tensor.detach().contiguous()};
  auto work = axis_.group->send(tensors, to, tag);
  return {tensors[0], std::move(work)};
}

Transfer Links::receive_like(const at::Tensor& activation, int from, int tag) {
  std::vector<at::Tensor> tensors = {space({activation.scalar_type(), activation.sizes().vec()})};
  auto work = axis_.group->recv(tensors, from, tag);
  return {tensors[0], std::move(work)};
}

at::Tensor Links::share(const at::Tensor& tensor, int root) {
  if (axis_.size == 1) return tensor;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  const bool mine = axis_.rank == root;
  std::vector<at::Tensor> header = {(mine ? header_of(tensor) : at::zeros({header_words}, at::kLong)).to(device_)};
  axis_.group->broadcast(header, options)->wait();
  const at::Tensor words = header[0].cpu();
  const auto* data = words.const_data_ptr<int64_t>();
  if (data[1] == undefined) return {};
  std::vector<at::Tensor> tensors = {
      mine ? tensor.detach().contiguous()
           : at::empty(at::IntArrayRef(data + 2, static_cast<size_t>(data[1])),
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(data[0])).device(device_))};
  axis_.group->broadcast(tensors, options)->wait();
  return tensors[0];
}

}  // namespace dpbench::pipeline
