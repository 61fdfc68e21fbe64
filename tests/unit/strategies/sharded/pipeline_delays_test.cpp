// Tests that random delays of the forward and backward passes, the weight gradients, the transfers and the sums of tied
// gradients of a pipeline change no bit of its results. A tensor read before it has arrived, or freed too early, would
// change them.
#include <gtest/gtest.h>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "harness/conform/scenario/wrapped_workload.h"
#include "tests/unit/strategies/sharded/pipeline_steps.h"

namespace dpbench {
namespace {

using namespace pipeline_steps;

struct LateGradient : torch::autograd::PostAccumulateGradHook {
  explicit LateGradient(std::shared_ptr<RandomSleep> sleep) : sleep(std::move(sleep)) {}
  void operator()(const at::Tensor&) override { (*sleep)(); }

  std::shared_ptr<RandomSleep> sleep;
};

// A model with the blocks of another model, but random delays of their forward and backward passes and after each
// gradient of a parameter.
class LateModel : public Model {
 public:
  LateModel(std::shared_ptr<Model> inner, const std::shared_ptr<RandomSleep>& sleep) : inner_(std::move(inner)) {
    for (const auto& child : inner_->named_children()) register_module(child.key(), child.value());
    for (const Block& block : inner_->blocks())
      add_block({block.name, block.layers, [block, sleep](const at::Tensor& x, const Context& context) {
                   (*sleep)();
                   const at::Tensor y = block.forward(x, context);
                   if (y.requires_grad()) y.register_hook([sleep](const at::Tensor&) { (*sleep)(); });
                   return y;
                 }});
    for (const at::Tensor& parameter : parameters())
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<LateGradient>(sleep));
  }

 private:
  std::shared_ptr<Model> inner_;
};

class LateWorkload : public WrappedWorkload {
 public:
  LateWorkload(const Workload& inner, uint64_t seed)
      : WrappedWorkload(inner), sleep_(std::make_shared<RandomSleep>(seed)) {}
  std::shared_ptr<Model> model(uint64_t seed) const override {
    return std::make_shared<LateModel>(inner_.model(seed), sleep_);
  }

 private:
  std::shared_ptr<RandomSleep> sleep_;
};

class RandomDelays : public testing::TestWithParam<std::string> {};

// With poison, the strategy sends copies. Without poison, as in training, it sends tensors that it still uses.
void expect_same_bits_with_delays(const Setting& run) {
  const auto workload = run.make_workload();
  const Outcome expected = steps_on_one_device(run);
  for (const uint64_t seed : {1, 2, 3}) {
    Given params = run.params;
    params["poison"] = seed == 2 ? "on" : "off";
    expect_no_errors(on_ranks(run.ranks, [&](Rank& me) {
      const LateWorkload late(*workload, seed * 10 + static_cast<uint64_t>(me.rank));
      const auto strategy = made_on(delayed(me.mesh("pp=3"), me.rank, seed), "pp", late, params, at::kFloat, {});
      const Outcome found = after_steps(*strategy, late, run.micros);
      if (me.rank == 0) expect_same_bits(expected, found, run.name + ", seed " + std::to_string(seed));
    }));
  }
}

TEST_P(RandomDelays, ChangeNoBitOfAPipeline) {
  expect_same_bits_with_delays({GetParam(), "gpt", "tiny-llama,dropout=0.1", 3, 7, {{"schedule", GetParam()}}});
}

// The first and the last stage also exchange the gradient of the tied embedding. This exchange is delayed at random
// too.
TEST_P(RandomDelays, ChangeNoBitOfAPipelineWithATiedEmbedding) {
  expect_same_bits_with_delays({GetParam(), "gpt-exact", "", 3, 8, {{"schedule", GetParam()}}});
}

INSTANTIATE_TEST_SUITE_P(Pipeline, RandomDelays,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv"), [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace dpbench
