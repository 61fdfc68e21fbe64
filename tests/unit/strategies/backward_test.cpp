// The backward pass of the strategies (dpbench::backward) compared with torch's autograd engine: same bits, hooks,
// order and errors.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <functional>

#include "strategies/api/backward.h"
#include "strategies/api/named_tensors.h"
#include "tests/support/contains.h"
#include "workloads/api/workload.h"
#include "workloads/layers/linear.h"

namespace dpbench {
namespace {

using torch::autograd::AnomalyMode;
using torch::autograd::AutogradContext;
using torch::autograd::Engine;
using torch::autograd::variable_list;
using Pass = void (*)(const at::Tensor& loss);
using Loss = std::function<at::Tensor()>;

void backward_of_torch(const at::Tensor& loss) { loss.backward(); }

bool same_bits_and_strides(const at::Tensor& a, const at::Tensor& b) {
  return same_bits(a, b) && (!a.defined() || a.strides() == b.strides());
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& of, const Loss& loss, Pass pass) {
  for (const at::Tensor& tensor : of) tensor.mutable_grad().reset();
  pass(loss());
  std::vector<at::Tensor> found;
  for (const at::Tensor& tensor : of) found.push_back(tensor.grad());
  return found;
}

void expect_bits_of_torch(const std::vector<at::Tensor>& of, const Loss& loss, const std::string& what = "") {
  const auto expected = gradients(of, loss, backward_of_torch);
  for (const Pass pass : {Pass(backward), backward_with_callbacks}) {
    const auto found = gradients(of, loss, pass);
    for (size_t i = 0; i < of.size(); ++i)
      EXPECT_TRUE(same_bits_and_strides(expected[i], found[i])) << what << ", tensor " << i;
  }
}

at::Tensor random_leaf(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed)).requires_grad_();
}

// An autograd function that returns its input and calls `tap` in its backward pass.
struct Tap : torch::autograd::Function<Tap> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::function<void()>* tap) {
    context->saved_data["tap"] = reinterpret_cast<int64_t>(tap);
    return input.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients_in) {
    (*reinterpret_cast<const std::function<void()>*>(context->saved_data["tap"].toInt()))();
    return {gradients_in[0], {}};
  }
};

bool in_the_engine() { return torch::autograd::get_current_graph_task_id() != -1; }

TEST(Backward, GivesTheBitsOfTorchsEngineForEveryWorkload) {
  at::set_num_threads(1);
  for (const WorkloadInfo& info : workload_registry().all()) {
    const auto workload = info.make({});
    const auto model = workload->model(3);
    model->train();
    const at::Tensor ids = at::arange(std::min<int64_t>(12, workload->samples()));
    workload->prepare(ids);
    const Batch batch = workload->batch(ids);
    const auto loss = [&] { return workload->loss(model->forward(batch.input, {1, 0, batch.ids}), batch.target); };
    expect_bits_of_torch(model->parameters(), loss, info.name);
  }
}

TEST(Backward, SumsGradientsOfSeveralConsumersInTheOrderOfTorchsEngine) {
  const at::Tensor x = random_leaf({64}, 1);
  expect_bits_of_torch({x}, [&] {
    const at::Tensor y = x * 3;
    return ((y * 1e8).sin() + y.exp() * 1e-3 + (y * 1e-8).cos() + y + y * x).sum();
  });
}

TEST(Backward, GivesTheBitsOfTorchsEngineForANodeWithSeveralConsumers) {
  const at::Tensor x = random_leaf({64}, 1);
  expect_bits_of_torch({x}, [&] {
    const at::Tensor early = x * 3, late = early.exp();
    at::Tensor above = late.sin() + late.cos() + late * late;
    for (int i = 0; i < 40; ++i) above = above.tanh();
    return above.sum();
  });
}

TEST(Backward, SumsGradientsOfShapeBroadcastTensorsLikeTorchsEngine) {
  const at::Tensor x = random_leaf({5, 4}, 1), row = random_leaf({4}, 2), one = random_leaf({}, 3);
  expect_bits_of_torch({x, row, one}, [&] { return ((x + row) * one).square().mean(); });
}

TEST(Backward, LeavesGradUndefinedForUnusedParameters) {
  const at::Tensor x = random_leaf({4}, 1), unused = random_leaf({4}, 2), frozen = random_leaf({4}, 3).detach();
  expect_bits_of_torch({x, unused}, [&] { return (x * frozen).sum(); });
  EXPECT_FALSE(unused.grad().defined());
}

TEST(Backward, AddsSparseGradientsLikeTorchsEngine) {
  const at::Tensor table = random_leaf({6, 3}, 1), rows = at::tensor({1, 4, 1});
  const auto loss = [&](bool dense) {
    const at::Tensor found = at::embedding(table, rows, -1, false, /*sparse=*/true);
    return dense ? found.sum() + table.sum() : found.square().sum() + found.sum();
  };
  for (const bool dense : {false, true}) {
    const auto expected = gradients(
                   {table}, [&] { return loss(dense); }, backward_of_torch),
               found = gradients({table}, [&] { return loss(dense); }, backward);
    EXPECT_EQ(expected[0].is_sparse(), found[0].is_sparse());
    EXPECT_TRUE(same_bits_and_strides(expected[0].to_dense(), found[0].to_dense())) << dense;
  }
}

TEST(Backward, AccumulatesIntoExistingGradients) {
  const at::Tensor x = random_leaf({4}, 1);
  for (int pass = 0; pass < 2; ++pass) backward((x * x).sum());
  EXPECT_TRUE(at::allclose(x.grad(), 4 * x.detach()));
}

TEST(Backward, StartsFromAGradientGivenForTheOutput) {
  const at::Tensor x = random_leaf({3, 4}, 1), gradient = random_leaf({3, 4}, 2).detach();
  x.tanh().backward(gradient);
  const at::Tensor expected = x.grad().clone();
  x.mutable_grad().reset();
  backward(x.tanh(), gradient);
  EXPECT_TRUE(same_bits_and_strides(expected, x.grad()));
  EXPECT_THROW(backward(x.tanh(), at::ones({4})), c10::Error);  // refused: the gradient has 4 elements, the output 12
}

// Returns a log of all hook calls on tensors and nodes, with the sum of the gradient that each hook receives.
std::vector<std::string> hooks_called(Pass pass) {
  std::vector<std::string> log;
  const auto hook = [&](const std::string& name) {
    return [&log, name](const at::Tensor& gradient) {
      log.push_back(name + " " + std::to_string(gradient.sum().item<float>()));
      return gradient * 2;
    };
  };
  const at::Tensor x = random_leaf({4}, 1), w = random_leaf({4}, 2);
  at::Tensor y = x * w;
  at::Tensor z = y.exp();
  y.retain_grad();
  x.register_hook(hook("x"));
  y.register_hook(hook("y"));
  z.register_hook(hook("z"));
  z.grad_fn()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [&](const variable_list& outputs, const variable_list& inputs) {
        log.push_back("post " + std::to_string(inputs[0].sum().item<float>()));
        return variable_list{outputs[0] * 3};
      }));
  pass((z + y).sum());
  log.push_back("kept " + std::to_string(y.grad().sum().item<float>()));
  log.push_back("w " + std::to_string(w.grad().sum().item<float>()));
  return log;
}

TEST(Backward, CallsHooksLikeTorchsEngine) {
  const auto expected = hooks_called(backward_of_torch);
  EXPECT_EQ(expected.size(), 6U);
  EXPECT_EQ(hooks_called(backward), expected);
  EXPECT_EQ(hooks_called(backward_with_callbacks), expected);
}

// Returns the names of the leaf tensors in the order in which their gradients become ready, as the buckets of ddp see
// it.
std::vector<std::string> leaves_in_order(Pass pass) {
  std::vector<std::string> order;
  const auto leaf = [&](const std::string& name, at::IntArrayRef sizes) {
    const at::Tensor tensor = random_leaf(sizes, 1);
    const auto node = torch::autograd::impl::grad_accumulator(tensor);
    node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [&order, name](const variable_list& outputs, const variable_list&) {
          order.push_back(name);
          return outputs;
        }));
    return std::pair(tensor, node);
  };
  const auto [w1, n1] = leaf("w1", {5, 4});
  const auto [b1, n2] = leaf("b1", {5});
  const auto [w2, n3] = leaf("w2", {3, 5});
  const auto [b2, n4] = leaf("b2", {3});
  const auto [scale, n5] = leaf("scale", {});
  const at::Tensor x = random_leaf({2, 4}, 2).detach();
  pass((linear(linear(x, w1, b1), w2, b2) * scale + b2 + scale).sum());
  return order;
}

TEST(Backward, MakesLeafGradientsReadyInTheOrderOfTorchsEngine) {
  const auto expected = leaves_in_order(backward_of_torch);
  EXPECT_EQ(expected.size(), 5U);
  EXPECT_EQ(leaves_in_order(backward), expected);
  EXPECT_EQ(leaves_in_order(backward_with_callbacks), expected);
}

// A post hook of a node reads a tensor that the node saved, so the pass must release saved tensors only after the
// hooks.
TEST(Backward, KeepsSavedTensorsUntilThePostHooksHaveRun) {
  for (const Pass pass : {Pass(backward_of_torch), Pass(backward), Pass(backward_with_callbacks)}) {
    const at::Tensor x = random_leaf({4}, 1);
    const at::Tensor y = x.exp();
    auto* node = dynamic_cast<torch::autograd::generated::ExpBackward0*>(y.grad_fn().get());
    ASSERT_NE(node, nullptr);
    bool defined = false;
    node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [&](const variable_list& outputs, const variable_list&) {
          defined = node->result_.unpack(y.grad_fn()).defined();
          return outputs;
        }));
    pass(y.sum());
    EXPECT_TRUE(defined);
  }
}

TEST(Backward, RunsInTorchsEngineOnTheCpuOnlyForCallbacksOrInAnomalyMode) {
  int calls = 0;
  bool inside = false;
  const std::function<void()> look = [&] { ++calls, inside = in_the_engine(); };
  const at::Tensor x = random_leaf({4}, 1);
  const auto loss = [&] { return Tap::apply(x, &look).sum(); };
  backward(loss());
  EXPECT_FALSE(inside);
  backward(Tap::apply(x, &look), at::ones({4}));
  EXPECT_FALSE(inside);
  backward_with_callbacks(loss());
  EXPECT_TRUE(inside);
  AnomalyMode::set_enabled(true, /*check_nan=*/false);
  backward(loss());
  AnomalyMode::set_enabled(false);
  EXPECT_TRUE(inside);
  EXPECT_EQ(calls, 4);
}

TEST(Backward, RunsQueuedCallbacksAfterAllGradients) {
  const at::Tensor x = random_leaf({4}, 1);
  bool called = false;
  const std::function<void()> ask = [&] {
    Engine::get_default_engine().queue_callback([&] { called = x.grad().defined(); });
  };
  backward_with_callbacks(Tap::apply(x, &ask).sum());
  EXPECT_TRUE(called);
  EXPECT_THROW(backward(Tap::apply(x, &ask).sum()), c10::Error);
}

TEST(Backward, AllowsANestedBackwardPass) {
  const at::Tensor x = random_leaf({4}, 1), w = random_leaf({4}, 2);
  for (const Pass inner : {Pass(backward_of_torch), Pass(backward)}) {
    const std::function<void()> again = [&] {
      const at::AutoGradMode grad(true);
      inner((w * w).sum());
    };
    expect_bits_of_torch({x, w}, [&] { return Tap::apply(x, &again).exp().sum(); });
  }
}

TEST(Backward, DisablesGradModeInNodesAndPropagatesErrors) {
  const at::Tensor x = random_leaf({4}, 1);
  bool mode = true;
  const std::function<void()> fail = [&] {
    mode = at::GradMode::is_enabled();
    throw std::invalid_argument("no");
  };
  EXPECT_THROW(backward(Tap::apply(x, &fail).sum()), std::invalid_argument);
  EXPECT_FALSE(mode);
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(Backward, ReleasesSavedTensorsSoThatASecondPassFails) {
  const at::Tensor x = random_leaf({4}, 1);
  for (const Pass pass : {Pass(backward), backward_with_callbacks}) {
    const at::Tensor loss = (x * x).sum();
    pass(loss);
    try {
      pass(loss);
      FAIL() << "second pass over a released graph";
    } catch (const c10::Error& error) {
      EXPECT_TRUE(mentions(error.what(), {"second time"}));
    }
  }
}

TEST(Backward, RejectsNonScalarUndefinedComplexOrGraphlessRoots) {
  for (const Pass pass : {Pass(backward), backward_with_callbacks}) {
    // refused: the output is no scalar and no gradient is given
    EXPECT_THROW(pass(random_leaf({4}, 1) * 2), c10::Error);
    EXPECT_THROW(pass(at::ones({})), c10::Error);  // refused: the tensor has no autograd graph
    EXPECT_THROW(pass(at::Tensor()), c10::Error);
    EXPECT_THROW(pass(at::complex(random_leaf({}, 1), random_leaf({}, 2))), c10::Error);
  }
  const at::Tensor leaf = random_leaf({}, 1);
  backward(leaf);
  EXPECT_EQ(leaf.grad().item<float>(), 1);
}

TEST(Backward, ComputesTheGradientThroughAGraph50000NodesDeep) {
  const at::Tensor x = random_leaf({1}, 1);
  at::Tensor y = x;
  for (int i = 0; i < 50'000; ++i) y = y + 1;
  backward(y.sum());
  EXPECT_EQ(x.grad().item<float>(), 1);
}

}  // namespace
}  // namespace dpbench
