#include "workloads/layers/dropout.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "workloads/base/hash.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench {
namespace {

// The random keys of two neighbouring features differ by this number. Like the factors of mix32(), it is odd and below
// 2^31.
constexpr uint32_t feature_stride = 0x1e3779b1;
constexpr int64_t low32 = 0xffffffff;

uint32_t row_key(uint64_t key, int64_t id) {
  const auto wide = static_cast<uint64_t>(id);
  const uint32_t low = mix32(static_cast<uint32_t>(wide) ^ static_cast<uint32_t>(key));
  return mix32((low ^ static_cast<uint32_t>(wide >> 32)) + static_cast<uint32_t>(key >> 32));
}

void fill_row(float* row, const Piece& features, uint32_t key, int32_t threshold, float factor) {
  for (int64_t f = 0; f < features.size; ++f) {
    const uint32_t bits = mix32(key + static_cast<uint32_t>(features.first + f) * feature_stride);
    row[f] = static_cast<int32_t>(bits >> 8) >= threshold ? factor : 0.0f;
  }
}

// mix64() of workloads/base, computed on int64 tensors. Their addition and multiplication wrap around as for uint64,
// but their right shift copies the sign bit, so these bits are masked out.
at::Tensor mix64(at::Tensor x) {
  const auto shifted = [](const at::Tensor& bits, int64_t by) {
    return bits.__rshift__(by).bitwise_and_((int64_t{1} << (64 - by)) - 1);
  };
  x = x.add(static_cast<int64_t>(mix64_added));
  x = x.bitwise_xor(shifted(x, 30)).mul_(static_cast<int64_t>(mix64_first));
  x = x.bitwise_xor(shifted(x, 27)).mul_(static_cast<int64_t>(mix64_second));
  return x.bitwise_xor(shifted(x, 31));
}

// mix32() of workloads/base, computed on int64 tensors with 32 bits in each element.
at::Tensor mix32(at::Tensor x) {
  x = x.bitwise_xor(x.__rshift__(16)).mul_(mix32_first).bitwise_and_(low32);
  x = x.bitwise_xor(x.__rshift__(15)).mul_(mix32_second).bitwise_and_(low32);
  return x.bitwise_xor(x.__rshift__(16));
}

// Returns a random key for each sample. low, high: the two halves of the step's key, as scalars or as tensors with one
// element.
template <class Half>
at::Tensor row_keys(const at::Tensor& ids, const Half& low, const Half& high) {
  const auto upper = ids.__rshift__(32).bitwise_and_(low32);
  return mix32(mix32(ids.bitwise_and(low32).bitwise_xor_(low)).bitwise_xor_(upper).add_(high).bitwise_and_(low32));
}

}  // namespace

at::Tensor& RecordedStep::current() {
  thread_local at::Tensor number;
  return number;
}

Dropout::Dropout(double rate, uint64_t layer)
    : rate_(rate),
      layer_(layer),
      threshold_(static_cast<int32_t>(std::lround(rate * (1 << 24)))),
      factor_(1 / (1 - rate)) {
  check(rate >= 0 && rate < 1, "a dropout rate must be in [0, 1)");
}

at::Tensor Dropout::forward(const at::Tensor& input, const Context& context, int64_t first) const {
  const int64_t features = input.numel() / std::max<int64_t>(input.size(0), 1);
  return forward(input, context, std::vector<Piece>{{first, features}});
}

at::Tensor Dropout::forward(const at::Tensor& input, const Context& context, const std::vector<Piece>& features) const {
  if (!is_training() || threshold_ == 0) return input;
  check(context.ids.defined() && context.ids.numel() == input.size(0), "dropout needs one sample id per row");
  std::vector<at::Tensor> masks;
  for (const Piece& piece : features) masks.push_back(mask(context, piece, input.options()));
  return input * (masks.size() == 1 ? masks[0] : at::cat(masks, 1)).view(input.sizes());
}

uint64_t Dropout::key(const Context& context) const {
  return dpbench::mix64(dpbench::mix64(dpbench::mix64(context.seed) + static_cast<uint64_t>(context.step)) + layer_);
}

at::Tensor Dropout::mask(const Context& context, const Piece& features, const at::TensorOptions& options) const {
  const bool loop = options.device().is_cpu() && context.ids.is_cpu() && options.dtype() == at::kFloat &&
                    !RecordedStep::number().defined();
  return loop ? mask_by_loop(context, features) : mask_by_tensors(context, features, options);
}

at::Tensor Dropout::keyed(const Context& context, const at::Tensor& ids) const {
  const uint64_t step_key = key(context);
  return row_keys(ids, at::Scalar(static_cast<int64_t>(step_key & low32)),
                  at::Scalar(static_cast<int64_t>(step_key >> 32)));
}

at::Tensor Dropout::keyed_on_device(const Context& context, const at::Tensor& ids) const {
  const auto seed = static_cast<int64_t>(dpbench::mix64(context.seed)), layer = static_cast<int64_t>(layer_);
  const at::Tensor key = mix64(mix64(RecordedStep::number().add(seed)).add(layer));
  return row_keys(ids, key.bitwise_and(low32), key.__rshift__(32).bitwise_and(low32));
}

at::Tensor Dropout::mask_by_loop(const Context& context, const Piece& features) const {
  const auto ids = context.ids.to(at::kLong).contiguous();
  auto mask = at::empty({ids.numel(), features.size}, at::kFloat);
  const uint64_t step_key = key(context);
  for (int64_t row = 0; row < ids.numel(); ++row)
    fill_row(mask.data_ptr<float>() + row * features.size, features,
             row_key(step_key, ids.const_data_ptr<int64_t>()[row]), threshold_, static_cast<float>(factor_));
  return mask;
}

at::Tensor Dropout::mask_by_tensors(const Context& context, const Piece& features,
                                    const at::TensorOptions& options) const {
  const auto ids = context.ids.to(options.device(), at::kLong, /*non_blocking=*/true);
  const at::Tensor rows = RecordedStep::number().defined() ? keyed_on_device(context, ids) : keyed(context, ids);
  const auto columns = at::arange(features.first, features.first + features.size, ids.options())
                           .mul_(static_cast<int64_t>(feature_stride));
  const auto bits = mix32((rows.unsqueeze(1) + columns).bitwise_and_(low32)).__rshift__(8);
  return bits.ge(threshold_).to(options.dtype()).mul_(factor_);
}

}  // namespace dpbench
