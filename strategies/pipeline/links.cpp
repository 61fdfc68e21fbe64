#include "strategies/pipeline/links.h"

#include <limits>
#include <stdexcept>

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include "strategies/parts/share.h"

namespace dpbench::pipeline {
namespace {

constexpr double poisonous = std::numeric_limits<double>::quiet_NaN();

}  // namespace

at::Tensor Transfer::wait() {
  if (work) work->wait();
  work.reset();
  if (spoils) tensor.fill_(poisonous);
  return tensor;
}

at::Tensor Links::share(const at::Tensor& tensor, int root) const {
  return dpbench::share(tensor, root, axis_, device_);
}

at::Tensor Links::space(const std::vector<int64_t>& sizes, at::ScalarType dtype) const {
  const auto options = at::TensorOptions().dtype(dtype).device(device_);
  if (poison_ && at::isFloatingType(dtype)) return at::full(sizes, poisonous, options);
  return at::empty(sizes, options);
}

Transfer Links::send(const at::Tensor& tensor, int to, int tag, const Cargo& cargo) {
  const Shape shape{tensor.scalar_type(), tensor.sizes().vec()};
  const auto [told, is_new] = told_.try_emplace(cargo, shape);
  if (told->second != shape)
    throw std::runtime_error(c10::str("the output of stage ", cargo.stage, " is ", shape.dtype, " of the sizes ",
                                      tensor.sizes(), ", and was ", told->second.dtype, " of the sizes ",
                                      at::IntArrayRef(told->second.sizes), " for another input of the same sizes, ",
                                      at::IntArrayRef(cargo.sizes),
                                      ". The sizes of a stage's output may depend on the sizes of the input alone: cut "
                                      "or pad samples in batch(), not in the model"));
  if (is_new) {
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
  return receive_sized(known->second.sizes, known->second.dtype, from, tag);
}

Transfer Links::send_like(const at::Tensor& tensor, int to, int tag) const {
  // Tests fill a sent buffer with NaN, to find strategies that reuse it too early. They get a copy to fill, because
  // autograd may have saved the tensor itself for the backward pass.
  const bool spoils = poison_ && tensor.is_floating_point();
  std::vector<at::Tensor> tensors = {spoils ? tensor.detach().clone(at::MemoryFormat::Contiguous)
                                            : tensor.detach().contiguous()};
  auto work = axis_.group->send(tensors, to, tag);
  return {tensors[0], std::move(work), spoils};
}

Transfer Links::receive_like(const at::Tensor& activation, int from, int tag) const {
  return receive_sized(activation.sizes().vec(), activation.scalar_type(), from, tag);
}

Transfer Links::receive_sized(const std::vector<int64_t>& sizes, at::ScalarType dtype, int from, int tag) const {
  std::vector<at::Tensor> tensors = {space(sizes, dtype)};
  auto work = axis_.group->recv(tensors, from, tag);
  return {tensors[0], std::move(work)};
}

}  // namespace dpbench::pipeline
