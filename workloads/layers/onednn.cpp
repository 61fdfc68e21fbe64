#include "workloads/layers/onednn.h"

#include <optional>
#include <string_view>

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int64_t min_multiplications = 1 << 18;

thread_local bool onednn_products = false;

using Scalars = c10::List<std::optional<at::Scalar>>;
using Product = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                           Scalars, std::optional<std::string_view>);

}  // namespace

OneDnnProducts::OneDnnProducts(bool on) : before_(onednn_products) { onednn_products = on; }
OneDnnProducts::~OneDnnProducts() { onednn_products = before_; }

bool OneDnnProducts::on() { return onednn_products; }

bool OneDnnProducts::take(const at::Tensor& input, int64_t multiplications) {
  return onednn_products && multiplications >= min_multiplications && input.scalar_type() == at::kFloat;
}

at::Tensor onednn_product(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  static const auto known = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  if (!known) throw UsageError("this LibTorch has no oneDNN for products on the CPU");
  static const auto product = known->typed<Product>();
  return product.call(input, weight, bias.defined() ? std::optional(bias) : std::nullopt, "none", Scalars(), "");
}

}  // namespace dpbench
