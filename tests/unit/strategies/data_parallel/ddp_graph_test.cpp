// Tests ddp with special autograd graphs: unused parameters, static graphs and checkpointed layers.
#include <torch/csrc/autograd/custom_function.h>

#include "strategies/ddp/reduction.h"
#include "tests/ranks/ddp_ranks.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

using namespace ddp_ranks;

TEST(DdpUnused, AnUnusedModelParameterIsAnErrorThatNamesItAndTheSettingFindUnused) {
  const SecondLayerIf never([](const Context&) { return false; });
  for (const auto& error : on_ranks(2, [&](Rank& me) {
         const auto ddp = ddp_on(me, never, {});
         one_step(*ddp, never, me.rank, 0);
       })) {
    EXPECT_TRUE(mentions(error, {"second", "ddp.find_unused=on"}));
  }
}

TEST(DdpUnused, AParameterUsedOnAnyRankHasAGradientOnAllRanks) {
  const SecondLayerIf on_rank_1(
      [](const Context& context) { return context.step < 2 && context.ids[0].item<int64_t>() % 24 >= 8; });
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    for (const char* views : {"on", "off"}) {
      const auto ddp = ddp_on(me, on_rank_1, {{"find_unused", "on"}, {"gradient_as_bucket_view", views}});
      for (int64_t step = 0; step < 3; ++step) {
        one_step(*ddp, on_rank_1, me.rank, step);
        const at::Tensor second = ddp->gradients()[1].second;
        EXPECT_EQ(second.defined(), step < 2) << "step " << step << " views " << views;
        if (step < 2) {
          EXPECT_TRUE(second.any().item<bool>());
        }
      }
    }
  }));
}

// A model that computes its second layer but does not return the result, so the layer has no path to the output.
class UnusedOutput : public Model {
 public:
  UnusedOutput() {
    first_ = register_parameter("first", at::full({4, 4}, 0.5));
    second_ = register_parameter("second", at::full({4, 4}, 0.25));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    const at::Tensor x = at::linear(input, first_);
    unused_output_ = at::linear(x, second_);
    return x;
  }

 private:
  at::Tensor first_, second_, unused_output_;
};

class UnusedOutputWorkload : public SecondLayerIf {
 public:
  UnusedOutputWorkload() : SecondLayerIf({}) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<UnusedOutput>(); }
};

TEST(DdpUnused, LayersWithoutAPathToTheOutputCountAsUnused) {
  const UnusedOutputWorkload workload;
  for (const auto& error : on_ranks(2, [&](Rank& me) { one_step(*ddp_on(me, workload, {}), workload, me.rank, 0); }))
    EXPECT_TRUE(mentions(error, {"second", "ddp.find_unused=on"}));
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, workload, {{"find_unused", "on"}});
    for (int64_t step = 0; step < 3; ++step) one_step(*ddp, workload, me.rank, step);
    EXPECT_TRUE(ddp->gradients()[0].second.any().item<bool>());
    EXPECT_FALSE(ddp->gradients()[1].second.defined());
  }));
}

TEST(DdpReduction, AForwardPassWithoutABackwardPassDoesNotBlockTheNextStep) {
  for (const char* find_unused : {"off", "on"})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const Replica replica(always(), at::kCPU, at::kDouble, 3, 4);
      ddp::Reduction reduction(me.group, replica.trainable(),
                               ddp::options_of(Params(ddp::parameters(), {{"find_unused", find_unused}}, "ddp")));
      for (int64_t step = 0; step < 6; ++step) {
        replica.clear_gradients();
        const Batch batch = replica.to_device(batch_of(always(), me.rank, step));
        reduction.before_forward(true);
        const at::Tensor output = replica.forward(step, batch);
        reduction.before_backward(output);
        if (step % 3 < 2) continue;  // no loss is computed for the outputs of this step
        always().loss(output, batch.target).backward();
        reduction.after_backward();
        const auto expected = mean_gradients(always(), 2, step);
        for (size_t p = 0; p < expected.size(); ++p)
          EXPECT_TRUE(at::allclose(replica.trainable()[p].tensor.grad(), expected[p], 1e-13)) << "step " << step;
      }
    }));
}

TEST(DdpStaticGraph, RejectsAChangedGraphNamingTheParameter) {
  const SecondLayerIf first_step([](const Context& context) { return context.step == 0; });
  for (const auto& error : on_ranks(2, [&](Rank& me) {
         const auto ddp = ddp_on(me, first_step, {{"static_graph", "on"}});
         for (int64_t step = 0; step < 2; ++step) one_step(*ddp, first_step, me.rank, step);
       })) {
    EXPECT_TRUE(mentions(error, {"second", "ddp.static_graph=on"}));
  }
}

TEST(DdpStaticGraph, AcceptsAParameterUnusedInEveryStep) {
  const SecondLayerIf never([](const Context&) { return false; });
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto ddp = ddp_on(me, never, {{"static_graph", "on"}});
    for (int64_t step = 0; step < 4; ++step) one_step(*ddp, never, me.rank, step);
    EXPECT_TRUE(ddp->gradients()[0].second.defined());
    EXPECT_FALSE(ddp->gradients()[1].second.defined());
  }));
}

TEST(DdpUnused, TheSettingSkipUnusedLeavesOutTheAllreduceOfBucketsWithoutUsedParameters) {
  const SecondLayerIf never([](const Context&) { return false; });
  for (const char* skip : {"off", "on"})
    expect_no_errors(on_ranks(2, [&](Rank& me) {
      const auto ddp = ddp_on(me, never, {{"find_unused", "on"}, {"skip_unused", skip}, {"bucket_mb", "0.0001"}});
      for (int64_t step = 0; step < 3; ++step) {
        const Batch micro[] = {batch_of(never, me.rank, step)};
        EXPECT_EQ(reductions(me, *ddp, micro, step).size(), skip == std::string("on") ? 1U : 2U) << "step " << step;
        EXPECT_TRUE(ddp->gradients()[0].second.any().item<bool>());
        EXPECT_FALSE(ddp->gradients()[1].second.defined());
      }
    }));
}

// Reentrant activation checkpointing as in torch: the weight is not an input of the autograd function. A backward pass
// inside the backward pass computes the gradient of the weight.
struct Reentrant : torch::autograd::Function<Reentrant> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor* weight,
                            const at::Tensor& input) {
    context->save_for_backward({input});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    return at::tanh(at::linear(input, *weight));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* weight = reinterpret_cast<const at::Tensor*>(context->saved_data["weight"].toInt());
    const at::AutoGradMode with_gradients(true);
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({at::tanh(at::linear(input, *weight))}, {gradients[0]});
    return {at::Tensor(), input.grad()};
  }
};

class Checkpointed : public SecondLayerIf {
 public:
  Checkpointed(int calls, bool recompute) : SecondLayerIf({}), calls_(calls), recompute_(recompute) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Layers>(calls_, recompute_); }

 private:
  class Layers : public Model {
   public:
    Layers(int calls, bool recompute) : calls_(calls), recompute_(recompute) {
      first_ = register_parameter("first", at::full({4, 4}, 0.0625));
      second_ = register_parameter("second", at::full({4, 4}, 0.125));
    }
    at::Tensor forward(const at::Tensor& input, const Context&) override {
      at::Tensor x = at::linear(input, first_);
      for (int i = 0; i < calls_; ++i)
        x = recompute_ ? Reentrant::apply(&second_, x) : at::tanh(at::linear(x, second_));
      return x;
    }

   private:
    int calls_;
    bool recompute_;
    at::Tensor first_, second_;
  };
  int calls_;
  bool recompute_;
};

void expect_checkpoints_reduced(int calls, const Given& params) {
  const Checkpointed workload(calls, true), plain(calls, false);
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    // Runs of 1, 2 and 3 steps are compared, because the gradient of a run's last step depends on the updates of all
    // its earlier steps.
    for (int64_t steps = 1; steps < 4; ++steps) {
      const auto ddp = ddp_on(me, workload, params), other = ddp_on(me, plain, {});
      for (int64_t step = 0; step < steps; ++step) {
        one_step(*ddp, workload, me.rank, step);
        one_step(*other, plain, me.rank, step);
      }
      for (size_t p = 0; p < 2; ++p)
        EXPECT_TRUE(at::allclose(ddp->gradients()[p].second, other->gradients()[p].second, 1e-12))
            << "parameter " << p << ", " << steps << " steps";
      if (steps == 1) {
        EXPECT_TRUE(at::allclose(ddp->gradients()[1].second, mean_gradients(plain, 2, 0)[1], 1e-12));
      }
    }
  }));
}

TEST(DdpCheckpoint, ACheckpointedLayerUsedOnceIsReduced) {
  expect_checkpoints_reduced(1, {});
  expect_checkpoints_reduced(1, {{"static_graph", "on"}});
}

TEST(DdpCheckpoint, ACheckpointedLayerUsedTwiceNeedsAStaticGraph) {
  expect_checkpoints_reduced(2, {{"static_graph", "on"}});
  const Checkpointed workload(2, true);
  for (const auto& error : on_ranks(2, [&](Rank& me) { one_step(*ddp_on(me, workload, {}), workload, me.rank, 0); }))
    EXPECT_TRUE(mentions(error, {"ready only once"}));
}

}  // namespace
}  // namespace dpbench
