#include "strategies/pipeline/links.h"

#include <limits>
#include <stdexcept>

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include "strategies/api/parts/activation.h"
#include "strategies/parts/share.h"

namespace dpbench::pipeline {
namespace {

constexpr double poisonous = std::numeric_limits<double>::quiet_NaN();

// The first word of an activation's header: the lowest bits hold the dtype, the bits above them the types.
constexpr int dtype_bits = 8;
constexpr int bits_per_type = 3;  // of one axis: 0 if the type is unknown, otherwise a Spread + 1

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

int64_t Links::types_of(const at::Tensor& activation) const {
  int64_t types = 0;
  for (size_t i = 0; i < typed_.size(); ++i)
    if (const auto spread = spread_on(activation, typed_[i]))
      types |= (static_cast<int64_t>(*spread) + 1) << (bits_per_type * i);
  return types;
}

void Links::set_types(const at::Tensor& activation, int64_t types) const {
  for (const Axis& axis : typed_) {
    if (const int64_t type = types % (1 << bits_per_type); type > 0)
      set_spread(activation, axis, static_cast<Spread>(type - 1));
    types >>= bits_per_type;
  }
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
    const at::Tensor words = header_of(tensor);
    words.data_ptr<int64_t>()[0] |= types_of(tensor) << dtype_bits;
    std::vector<at::Tensor> header = {words.to(device_)};
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
    const auto dtype = static_cast<at::ScalarType>(data[0] % (1 << dtype_bits));
    known = known_.emplace(cargo, Header{{dtype, {data + 2, data + 2 + data[1]}}, data[0] >> dtype_bits}).first;
  }
  const auto& [shape, types] = known->second;
  Transfer transfer = receive_sized(shape.sizes, shape.dtype, from, tag);
  set_types(transfer.tensor, types);
  return transfer;
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
