#include "strategies/fsdp/sharded_gradients.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace dpbench::fsdp {

ShardedGradients::ShardedGradients(const std::vector<at::Tensor>& parameters, const Storage& storage)
    : parameters_(parameters),
      storage_(storage),
      cut_(parameters, storage.shard.size),
      dtype_(parameters[0].scalar_type()),
      used_(parameters.size(), false) {}

void ShardedGradients::clear() {
  used_.assign(parameters_.size(), false);
  sum_.reset();
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void ShardedGradients::begin_reduce(double share) {
  const at::NoGradGuard no_grad;
  const bool all =
      std::ranges::all_of(parameters_, [](const at::Tensor& parameter) { return parameter.grad().defined(); });
  const auto options = parameters_[0].options().dtype(storage_.reduced.value_or(dtype_)).requires_grad(false);
  // In the input of the reduce-scatter, the padding of the shards and the gradients of unused parameters are 0.
  input_ =
      all && !cut_.padded() ? at::empty({cut_.whole_elements()}, options) : at::zeros({cut_.whole_elements()}, options);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].mutable_grad();
    if (!gradient.defined()) continue;
    used_[i] = true;
    cut_.pack(gradient, i, share, input_);
    gradient.reset();
  }
  if (storage_.shard.size == 1) {
    output_ = input_;
  } else {
    output_ = at::empty({cut_.shard_elements()}, options);
    reducing_ = begin_reduce_scatter(*storage_.shard.group, output_, input_);
  }
}

void ShardedGradients::finish_reduce(bool last) {
  if (!output_.defined()) return;
  const at::NoGradGuard no_grad;
  if (reducing_) reducing_->wait();
  reducing_.reset(), input_.reset();
  if (sum_.defined())
    sum_.add_(output_);
  else
    sum_ = output_.to(dtype_);
  output_.reset();
  if (!last || storage_.replica.size == 1) return;
  std::vector<at::Tensor> sums = {sum_};
  summing_ = storage_.replica.group->allreduce(sums);
}

void ShardedGradients::finish() {
  if (summing_) summing_->wait();
  summing_.reset();
}

at::Tensor ShardedGradients::rows(size_t i) const {
  return sum_.defined() ? cut_.rows_in(sum_, i, storage_.shard.rank) : at::Tensor();
}

}  // namespace dpbench::fsdp
