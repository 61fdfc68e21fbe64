#include "workloads/gpt/layers.h"

#include <cmath>

#include <ATen/ATen.h>

#include "workloads/layers/init.h"
#include "workloads/layers/linear.h"

namespace dpbench::gpt {
namespace {

at::Tensor product_over_last(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return linear(x.reshape({-1, x.size(-1)}), weight, bias).view(sizes);
}

}  // namespace

double residual_spread(const Shape& shape) { return initial_spread / std::sqrt(2 * static_cast<double>(shape.layers)); }

InitialWeights::InitialWeights(uint64_t seed, bool exact) : generator_(own_generator(seed)), exact_(exact) {}

at::Tensor InitialWeights::operator()(int64_t rows, int64_t columns, double spread, int64_t ones) const {
  if (!exact_) return at::randn({rows, columns}, generator_).mul_(spread);
  const at::Tensor where = at::randint(columns, {rows, ones}, generator_, at::kLong);
  const at::Tensor signs = at::randint(2, {rows, ones}, generator_, at::kFloat).mul_(2).sub_(1);
  return at::zeros({rows, columns}).scatter_(1, where, signs);
}

Dense::Dense(int64_t inputs, int64_t outputs, bool biased, double spread, const InitialWeights& weights)
    : weight_(register_parameter("weight", weights(outputs, inputs, spread, /*ones=*/1))) {
  if (biased) bias_ = register_parameter("bias", at::zeros({outputs}));
}

at::Tensor Dense::product(const at::Tensor& x, const at::Tensor& bias) const {
  return product_over_last(x, weight_, bias);
}

at::Tensor Dense::summed(const at::Tensor& x, const TensorSplit* split) const {
  if (!split) return forward(x);
  const at::Tensor sum = split->leave(x, [&](const at::Tensor& samples) { return product(samples, {}); });
  // The bias is converted to the dtype of the sum. Under autocast that is bfloat16, in which an undivided layer adds
  // its bias too.
  return bias_.defined() ? sum + bias_.to(sum.scalar_type()) : sum;
}

Embedding::Embedding(int64_t entries, int64_t hidden, const InitialWeights& weights)
    : entries_(entries), weight_(register_parameter("weight", weights(entries, hidden, initial_spread, /*ones=*/3))) {}

at::Tensor Embedding::summed(const at::Tensor& ids, const TensorSplit& split) const {
  const Piece mine = own_piece(entries_, split);
  return split.leave(ids, [&](const at::Tensor& samples) {
    const at::Tensor local = samples - mine.first;
    const at::Tensor foreign = local.lt(0).logical_or(local.ge(mine.size));
    return at::embedding(weight_, local.masked_fill(foreign, 0)).masked_fill(foreign.unsqueeze(-1), 0);
  });
}

at::Tensor padded_product(const at::Tensor& x, const at::Tensor& weight, int64_t multiple) {
  const int64_t rows = weight.size(0), missing = (multiple - rows % multiple) % multiple;
  if (missing == 0) return product_over_last(x, weight, {});
  return product_over_last(x, at::constant_pad_nd(weight, {0, 0, 0, missing}), {}).narrow(-1, 0, rows);
}

at::Tensor logits_of(const at::Tensor& x, const at::Tensor& weight) {
  constexpr int64_t aligned = 8;
  return padded_product(x, weight, x.is_cuda() ? aligned : 1);
}

Norm::Norm(const Shape& shape) : exact_(shape.exact), weight_(register_parameter("weight", at::ones({shape.hidden}))) {
  if (shape.style == Style::gpt2) bias_ = register_parameter("bias", at::zeros({shape.hidden}));
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  constexpr double epsilon = 1e-5, largest_exact = 4;
  if (exact_) {
    const at::Tensor y = at::hardtanh(x, -largest_exact, largest_exact) * weight_;
    return bias_.defined() ? y + bias_ : y;
  }
  return bias_.defined() ? at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon)
                         : at::rms_norm(x, weight_.sizes(), weight_, epsilon);
}

at::Tensor activated(bool exact, const at::Tensor& gate, const at::Tensor& up) {
  if (exact) return gate.defined() ? at::relu(gate) * up : at::relu(up);
  return gate.defined() ? at::silu(gate) * up : at::gelu(up, "tanh");
}

Mlp::Mlp(const Shape& shape, const InitialWeights& weights) : exact_(shape.exact) {
  const bool biased = shape.style == Style::gpt2;
  const auto dense = [&](const std::string& name, int64_t inputs, int64_t outputs, double spread) {
    return register_module(name, std::make_shared<Dense>(inputs, outputs, biased, spread, weights));
  };
  if (shape.style == Style::llama) gate_ = dense("gate_proj", shape.hidden, shape.mlp, initial_spread);
  up_ = dense("up_proj", shape.hidden, shape.mlp, initial_spread);
  down_ = dense("down_proj", shape.mlp, shape.hidden, residual_spread(shape));
}

at::Tensor Mlp::forward(const at::Tensor& x, const TensorSplit* split) const {
  const at::Tensor up = up_->forward(x);
  return down_->summed(activated(exact_, gate_ ? gate_->forward(x) : at::Tensor(), up), split);
}

}  // namespace dpbench::gpt
