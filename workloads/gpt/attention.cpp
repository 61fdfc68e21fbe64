#include "workloads/gpt/attention.h"

#include <ATen/ATen.h>

#include "workloads/gpt/kernels.h"

namespace dpbench::gpt {
namespace {

constexpr double rotary_base = 500'000;  // rotary base of Llama 3

}  // namespace

Rotary::Rotary(int64_t positions, int64_t head_size) {
  const at::Tensor pairs = at::arange(0, head_size, 2, at::kDouble) / static_cast<double>(head_size);
  const at::Tensor angles = at::outer(at::arange(positions, at::kDouble), at::pow(rotary_base, -pairs));
  const at::Tensor both = at::cat({angles, angles}, 1);
  exact_ = {both.cos(), both.sin()};
}

const Rotary::Tables& Rotary::tables_for(const at::Tensor& x) const {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (!near_.cosine.defined() || near_.cosine.device() != x.device() || near_.cosine.scalar_type() != type)
    near_ = {exact_.cosine.to(x.device(), type), exact_.sine.to(x.device(), type)};
  return near_;
}

at::Tensor Rotary::rotate(const at::Tensor& x, const std::vector<Piece>& positions) const {
  const Tables& tables = tables_for(x);
  const auto halves = x.chunk(2, -1);
  return x * pieces_of(tables.cosine, 0, positions) +
         at::cat({-halves[1], halves[0]}, -1) * pieces_of(tables.sine, 0, positions);
}

Attention::Attention(const Shape& shape, const InitialWeights& weights)
    : shape_(shape), kernel_(shape.exact ? exact_attention() : softmax_attention()) {
  const bool biased = shape.style == Style::gpt2;
  const int64_t shared = shape.kv_heads * shape.head_size();
  const auto dense = [&](const std::string& name, int64_t inputs, int64_t outputs, double spread) {
    return register_module(name, std::make_shared<Dense>(inputs, outputs, biased, spread, weights));
  };
  query_ = dense("q_proj", shape.hidden, shape.hidden, initial_spread);
  key_ = dense("k_proj", shape.hidden, shared, initial_spread);
  value_ = dense("v_proj", shape.hidden, shared, initial_spread);
  output_ = dense("o_proj", shape.hidden, shape.hidden, residual_spread(shape));
  if (shape.style == Style::llama && !shape.exact) rotary_.emplace(shape.seq, shape.head_size());
}

at::Tensor Attention::heads_of(const std::shared_ptr<Dense>& projection, const at::Tensor& x) const {
  const int64_t heads = projection->outputs() / shape_.head_size();
  return projection->forward(x).view({x.size(0), x.size(1), heads, shape_.head_size()}).transpose(1, 2);
}

// If there are fewer key and value heads than ranks, every rank computes all of them. Returns the key (or value) head
// for each of this rank's query heads. shared: all key (or value) heads.
at::Tensor Attention::heads_used(const at::Tensor& shared, const TensorSplit& split) const {
  const Piece mine = own_piece(shape_.heads, split);
  const at::Tensor heads =
      at::arange(mine.first, mine.first + mine.size, at::TensorOptions(at::kLong).device(shared.device()));
  return shared.index_select(1, heads.floor_divide(shape_.heads / shape_.kv_heads));
}

at::Tensor Attention::forward(const at::Tensor& x, const ModelSplit& split) const {
  const TensorSplit* tensor = split.tensor.get();
  const SequenceSplit* sequence = split.sequence.get();
  at::Tensor query = heads_of(query_, x), key = heads_of(key_, x), value = heads_of(value_, x);
  if (rotary_) {
    const std::vector<Piece> positions = sequence ? sequence->tokens() : std::vector<Piece>{{0, x.size(1)}};
    query = rotary_->rotate(query, positions), key = rotary_->rotate(key, positions);
  }
  const bool replicated = tensor && shape_.kv_heads < tensor->ranks();
  if (replicated) key = heads_used(key, *tensor), value = heads_used(value, *tensor);
  const at::Tensor heads = sequence ? sequence->attend(query, key, value, kernel_) : kernel_->whole(query, key, value);
  return output_->summed(heads.transpose(1, 2).reshape({x.size(0), x.size(1), query_->outputs()}), tensor);
}

}  // namespace dpbench::gpt
