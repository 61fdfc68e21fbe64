// Compares attention computed in blocks of keys with attention over all keys: results, gradients, shared heads.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "workloads/gpt/kernels.h"
#include "workloads/layers/autocast.h"

namespace dpbench::gpt {
namespace {

using Kernel = std::shared_ptr<const AttentionKernel>;

constexpr int64_t rows = 2, heads = 6, tokens = 7, size = 5;

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

struct Inputs {
  at::Tensor query, key, value, slope;
};

Inputs drawn(int64_t shared) {
  at::manual_seed(7);
  const auto tensor = [](int64_t count) { return at::randn({rows, count, tokens, size}, at::kDouble).mul_(2); };
  return {tensor(heads), tensor(shared), tensor(shared), tensor(heads)};
}

// Returns inputs rounded to whole numbers, for which attention without a softmax is exact in any order of addition.
Inputs whole_numbers(int64_t shared) {
  Inputs inputs = drawn(shared);
  for (at::Tensor* tensor : {&inputs.query, &inputs.key, &inputs.value, &inputs.slope}) tensor->round_();
  return inputs;
}

at::Tensor part(const at::Tensor& tensor, int64_t first, int64_t count) { return tensor.narrow(2, first, count); }

// The last three queries attend to all of the first four keys, and causally to the last three keys.
TEST(AttentionKernels, ResultsOfBlocksOfKeysMergeToTheAttentionOverAllKeys) {
  for (const int64_t shared : {int64_t{6}, int64_t{2}, int64_t{1}})
    for (const Kernel& kernel : {softmax_attention(), plain_softmax_attention()}) {
      const auto [query, key, value, slope] = drawn(shared);
      const at::Tensor whole = kernel->whole(query, key, value), q = part(query, 4, 3);
      const auto early = kernel->block(q, part(key, 0, 4), part(value, 0, 4), false);
      const auto late = kernel->block(q, part(key, 4, 3), part(value, 4, 3), true);
      const at::Tensor all = at::logaddexp(early.logsumexp, late.logsumexp);
      const at::Tensor merged = early.output * (early.logsumexp - all).exp().unsqueeze(3) +
                                late.output * (late.logsumexp - all).exp().unsqueeze(3);
      EXPECT_LE(distance(merged, part(whole, 4, 3)), 1e-13);
    }
  const auto [query, key, value, slope] = whole_numbers(2);
  const Kernel exact = exact_attention();
  const auto early = exact->block(part(query, 4, 3), part(key, 0, 4), part(value, 0, 4), false),
             late = exact->block(part(query, 4, 3), part(key, 4, 3), part(value, 4, 3), true);
  EXPECT_EQ(distance(early.output + late.output, part(exact->whole(query, key, value), 4, 3)), 0);
}

TEST(AttentionKernels, GradientsForBlocksOfKeysAddUpToTheGradientsForAllKeys) {
  struct Case {
    Kernel kernel;
    double limit;
  };
  for (const int64_t shared : {int64_t{6}, int64_t{3}})
    for (const auto& [kernel, limit] :
         {Case{softmax_attention(), 1e-12}, {plain_softmax_attention(), 1e-12}, {exact_attention(), 0}}) {
      const auto [query, key, value, slope] = limit == 0 ? whole_numbers(shared) : drawn(shared);
      std::vector<at::Tensor> inputs;
      for (const at::Tensor& one : {query, key, value}) inputs.push_back(one.clone().requires_grad_());
      const auto due = torch::autograd::grad({kernel->whole(inputs[0], inputs[1], inputs[2])}, inputs, {slope});

      const AttentionKernel::Result own = kernel->block(query, key, value, true);
      at::Tensor by_query = at::zeros_like(query), by_key = at::zeros_like(key), by_value = at::zeros_like(value);
      struct Block {
        int64_t query, queries, key, keys;
        bool causal;
      };
      for (const Block& block : {Block{0, 4, 0, 4, true}, {4, 3, 0, 4, false}, {4, 3, 4, 3, true}}) {
        const auto of_query = [&](const at::Tensor& x) {
          return x.defined() ? part(x, block.query, block.queries) : x;
        };
        const auto of_key = [&](const at::Tensor& x) { return part(x, block.key, block.keys); };
        const auto [q, k, v] = kernel->block_backward(of_query(slope), of_query(query), of_key(key), of_key(value),
                                                      {of_query(own.output), of_query(own.logsumexp)}, block.causal);
        of_query(by_query).add_(q);
        of_key(by_key).add_(k);
        of_key(by_value).add_(v);
      }
      EXPECT_LE(distance(by_query, due[0]), limit);
      EXPECT_LE(distance(by_key, due[1]), limit);
      EXPECT_LE(distance(by_value, due[2]), limit);
    }
}

TEST(AttentionKernels, ResultsForBlocksOfBfloat16KeysAreFloat32EvenUnderAutocast) {
  const auto [query, key, value, slope] = drawn(2);
  const auto narrow = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  for (const Kernel& kernel : {softmax_attention(), plain_softmax_attention()}) {
    const auto block = [&, q = narrow(query), k = narrow(key), v = narrow(value)](bool autocast) {
      const Autocast within(autocast, at::kCPU);
      return kernel->block(q, k, v, true);
    };
    const auto found = block(true), due = block(false);
    EXPECT_EQ(found.output.scalar_type(), at::kFloat);
    EXPECT_EQ(found.logsumexp.scalar_type(), at::kFloat);
    EXPECT_TRUE(found.output.equal(due.output)) << "also under autocast";
    EXPECT_TRUE(found.logsumexp.equal(due.logsumexp));
  }
}

}  // namespace
}  // namespace dpbench::gpt
