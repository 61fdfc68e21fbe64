#include "workloads/layers/dropout.h"

#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "workloads/hash.h"

namespace dpbench {
namespace {

constexpr uint32_t feature_stride = 0x1e3779b1;  // odd and below 2^31, as the factors of mix32
constexpr int64_t low32 = 0xffffffff;

uint32_t row_key(uint64_t key, int64_t id) {
  const auto wide = static_cast<uint64_t>(id);
  const uint32_t low = mix32(static_cast<uint32_t>(wide) ^ static_cast<uint32_t>(key));
  return mix32((low ^ static_cast<uint32_t>(wide >> 32)) + static_cast<uint32_t>(key >> 32));
}

void fill_row(float* row, int64_t features, uint32_t key, int32_t threshold, float factor) {
  for (int64_t f = 0; f < features; ++f) {
    const uint32_t bits = mix32(key + static_cast<uint32_t>(f) * feature_stride);
    row[f] = static_cast<int32_t>(bits >> 8) >= threshold ? factor : 0.0f;
  }
}

// mix32 on int64 tensors that hold 32 bits each.
at::Tensor mix32(at::Tensor x) {
  x = x.bitwise_xor(x.__rshift__(16)).mul_(mix32_first).bitwise_and_(low32);
  x = x.bitwise_xor(x.__rshift__(15)).mul_(mix32_second).bitwise_and_(low32);
  return x.bitwise_xor(x.__rshift__(16));
}

}  // namespace

Dropout::Dropout(double rate, uint64_t layer)
    : layer_(layer), threshold_(static_cast<int32_t>(std::lround(rate * (1 << 24)))), factor_(1 / (1 - rate)) {
  check(rate >= 0 && rate < 1, "a dropout rate lies in [0, 1)");
}

at::Tensor Dropout::forward(const at::Tensor& input, const Context& context) const {
  if (!is_training() || threshold_ == 0) return input;
  check(context.ids.defined() && context.ids.numel() == input.size(0),
        "dropout needs the sample id of each of its rows");
  const int64_t features = input.numel() / std::max<int64_t>(input.size(0), 1);
  return input * mask(context, features, input.options()).view(input.sizes());
}

uint64_t Dropout::key(const Context& context) const {
  return mix64(mix64(mix64(context.seed) + static_cast<uint64_t>(context.step)) + layer_);
}

at::Tensor Dropout::mask(const Context& context, int64_t features, const at::TensorOptions& options) const {
  const bool loop = options.device().is_cpu() && context.ids.is_cpu() && options.dtype() == at::kFloat;
  return loop ? mask_by_loop(context, features) : mask_by_tensors(context, features, options);
}

at::Tensor Dropout::mask_by_loop(const Context& context, int64_t features) const {
  const auto ids = context.ids.to(at::kLong).contiguous();
  auto mask = at::empty({ids.numel(), features}, at::kFloat);
  const uint64_t step_key = key(context);
  for (int64_t row = 0; row < ids.numel(); ++row)
    fill_row(mask.data_ptr<float>() + row * features, features, row_key(step_key, ids.const_data_ptr<int64_t>()[row]),
             threshold_, static_cast<float>(factor_));
  return mask;
}

at::Tensor Dropout::mask_by_tensors(const Context& context, int64_t features, const at::TensorOptions& options) const {
  const uint64_t step_key = key(context);
  const auto ids = context.ids.to(options.device(), at::kLong, /*non_blocking=*/true);
  const auto low_key = static_cast<int64_t>(step_key & low32), high_key = static_cast<int64_t>(step_key >> 32);
  auto rows = mix32(ids.bitwise_and(low32).bitwise_xor_(low_key)).bitwise_xor_(ids.__rshift__(32).bitwise_and_(low32));
  rows = mix32(rows.add_(high_key).bitwise_and_(low32));
  const auto columns = at::arange(features, ids.options()).mul_(static_cast<int64_t>(feature_stride));
  const auto bits = mix32((rows.unsqueeze(1) + columns).bitwise_and_(low32)).__rshift__(8);
  return bits.ge(threshold_).to(options.dtype()).mul_(factor_);
}

}  // namespace dpbench
