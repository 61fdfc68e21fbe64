#include "harness/micro/inputs.h"

#include <array>

#include <ATen/ATen.h>

namespace dpbench::micro {
namespace {

// Inputs repeat after this number of values. It is prime, so that the ranks' parts of a tensor rarely begin alike.
constexpr int64_t period_length = 61;

constexpr std::array<ElementType, 5> element_types = {{{"float", at::kFloat, 1 << 24},
                                                       {"double", at::kDouble, 1 << 24},
                                                       {"bfloat16", at::kBFloat16, 256},
                                                       {"int32", at::kInt, 1 << 24},
                                                       {"int64", at::kLong, 1 << 24}}};

struct Reduction {
  c10d::ReduceOp::RedOpType type;
  at::Tensor (*combine)(const at::Tensor& a, const at::Tensor& b);
};

const Reduction& reduction_of(ReductionName name) {
  static const std::array<Reduction, 4> all = {
      {{c10d::ReduceOp::SUM, [](const at::Tensor& a, const at::Tensor& b) { return a + b; }},
       {c10d::ReduceOp::MAX, [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); }},
       {c10d::ReduceOp::MIN, [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); }},
       {c10d::ReduceOp::PRODUCT, [](const at::Tensor& a, const at::Tensor& b) { return a * b; }}}};
  return all.at(static_cast<size_t>(name));
}

}  // namespace

const ElementType& element_type(ElementName name) { return element_types.at(static_cast<size_t>(name)); }

c10d::ReduceOp Inputs::reduction() const { return reduction_of(op).type; }

at::Tensor Inputs::of(int rank, int64_t from, int64_t count) const { return repeated(period(rank), from, count); }

at::Tensor Inputs::reduced(int64_t from, int64_t count) const {
  at::Tensor all = period(0);
  for (int rank = 1; rank < world; ++rank) all = reduction_of(op).combine(all, period(rank));
  return repeated(all, from, count);
}

// Returns the first period_length values of a rank's input, as int64. The rest of the input repeats them.
at::Tensor Inputs::period(int rank) const {
  const int64_t values = op == ReductionName::product ? 2 : element_type(dtype).exact / world;
  return at::arange(period_length, at::kLong).add_(period_length * rank).remainder_(values).add_(1);
}

at::Tensor Inputs::repeated(const at::Tensor& period, int64_t from, int64_t count) const {
  return period.to(element_type(dtype).scalar)
      .roll({-(from % period_length)})
      .repeat({count / period_length + 1})
      .narrow(0, 0, count);
}

}  // namespace dpbench::micro
