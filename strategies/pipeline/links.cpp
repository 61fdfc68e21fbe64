#include "strategies/pipeline/links.h"

#include <limits>

#include <ATen/ATen.h>

#include "strategies/exchange/share.h"

namespace dpbench::pipeline {

at::Tensor Links::share(const at::Tensor& tensor, int root) const {
  return dpbench::share(tensor, root, axis_, device_);
}

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

}  // namespace dpbench::pipeline
