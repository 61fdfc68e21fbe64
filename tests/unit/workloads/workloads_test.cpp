#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <thread>
#include <tuple>

#include "workloads/api/workload.h"
#include "workloads/layers/conv.h"
#include "workloads/layers/dropout.h"

namespace dpbench {
namespace {

std::unique_ptr<Workload> make_workload(const std::string& name, const WorkloadOptions& options = {}) {
  return workload_registry().at(name).make(options);
}

const std::vector<std::string> names{"random-linear", "mnist-mlp", "convnet"};

int64_t trainable(const Model& model) {
  int64_t count = 0;
  for (const auto& p : model.parameters()) count += p.numel();
  return count;
}

std::vector<at::Tensor> values(const Model& model) {
  auto all = model.parameters();
  for (const auto& buffer : model.buffers()) all.push_back(buffer);
  return all;
}

bool same_bits(const Model& a, const Model& b) {
  const auto x = values(a), y = values(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const auto& p, const auto& q) { return at::equal(p, q); });
}

TEST(Workloads, HaveTheDocumentedNumberOfParameters) {
  struct Row {
    const char* name;
    int64_t parameters, statistics;
  };
  for (const auto& [name, parameters, statistics] :
       {Row{"random-linear", 12, 0}, Row{"mnist-mlp", 101'770, 0}, Row{"convnet", 49'242, 136}}) {
    const auto model = make_workload(name)->model(1);
    EXPECT_EQ(trainable(*model), parameters) << name;
    int64_t running = 0;
    for (const auto& buffer : model->buffers()) running += buffer.numel();
    EXPECT_EQ(running, statistics) << name;
  }
}

TEST(Workloads, HaveTheDocumentedParameterNames) {
  using Keys = std::vector<std::string>;
  EXPECT_EQ(make_workload("random-linear")->model(1)->named_parameters().keys(), (Keys{"fc.weight", "fc.bias"}));
  EXPECT_EQ(make_workload("mnist-mlp")->model(1)->named_parameters().keys(),
            (Keys{"n.1.weight", "n.1.bias", "n.3.weight", "n.3.bias"}));
  EXPECT_EQ(make_workload("convnet")->model(1)->named_parameters().keys(),
            (Keys{"conv1.weight", "norm1.bias", "conv2.weight", "norm2.bias", "large_k.weight", "large_k.bias",
                  "norm3.bias", "dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"}));
}

TEST(Workloads, HaveTheDocumentedBatchScalingAndOptimizer) {
  EXPECT_EQ(workload_registry().at("random-linear").batch, 30);
  EXPECT_EQ(workload_registry().at("random-linear").scaling, Scaling::strong);
  for (const auto* name : {"mnist-mlp", "convnet"}) {
    EXPECT_EQ(workload_registry().at(name).batch, 64);
    EXPECT_EQ(workload_registry().at(name).scaling, Scaling::weak);
  }
  EXPECT_EQ(make_workload("convnet")->optimizer().kind, OptimizerSpec::Kind::adam);
  EXPECT_EQ(make_workload("mnist-mlp")->optimizer().kind, OptimizerSpec::Kind::sgd);
  for (const auto& name : names) EXPECT_EQ(make_workload(name)->optimizer().learning_rate, 1e-3);
}

TEST(Workloads, InitialisationDoesNotDependOnTorchsGlobalRandomGenerator) {
  for (const auto& name : names) {
    const auto workload = make_workload(name);
    const auto first = workload->model(5);
    torch::manual_seed(99);
    at::randn({1000});
    EXPECT_TRUE(same_bits(*first, *workload->model(5))) << name;
    EXPECT_TRUE(same_bits(*first, *make_workload(name)->model(5))) << name;
    EXPECT_FALSE(same_bits(*first, *workload->model(6))) << name;
  }
}

TEST(Workloads, DoNotUseTorchsGlobalRandomGenerator) {
  for (const auto& name : names) {
    const auto workload = make_workload(name);
    torch::manual_seed(4);
    const auto expected = at::randn({10});
    torch::manual_seed(4);
    const auto model = workload->model(1);
    const auto batch = workload->batch(at::arange(4));
    model->forward(batch.input, {.ids = batch.ids});
    EXPECT_TRUE(at::equal(at::randn({10}), expected)) << name;
  }
}

TEST(Workloads, InitialisationIsTheSameInEveryThread) {
  for (const auto& name : names) {
    const auto workload = make_workload(name);
    const auto expected = workload->model(5);
    std::vector<std::shared_ptr<Model>> models(8);
    std::vector<std::thread> threads;
    for (auto& model : models)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) model = workload->model(5);
      });
    for (auto& thread : threads) thread.join();
    for (const auto& model : models) EXPECT_TRUE(same_bits(*expected, *model)) << name;
  }
}

// Expected values from Python, after torch.manual_seed(1), for the Sequential model that mnist-mlp corresponds to:
// first value, last value and float64 sum of each tensor.
TEST(MnistMlp, InitialisesLikePyTorch) {
  const auto parameters = make_workload("mnist-mlp")->model(1)->named_parameters();
  struct Row {
    const char* key;
    float first, last;
    double sum;
  };
  for (const auto& [key, first, last, sum] : {Row{"n.1.weight", 0x1.2d80aap-6f, -0x1.0db2b8p-6f, 0.8920131109975387},
                                              Row{"n.1.bias", -0x1.9a48b8p-6f, -0x1.313f6ep-9f, -0.08724849724967498},
                                              Row{"n.3.weight", 0x1.0f492ep-5f, 0x1.288d04p-4f, 3.1018488260160666},
                                              Row{"n.3.bias", -0x1.00ffp-4f, -0x1.643526p-4f, -0.19582830928266048}}) {
    const auto flat = parameters[key].detach().flatten();
    EXPECT_EQ(flat[0].item<float>(), first) << key;
    EXPECT_EQ(flat[-1].item<float>(), last) << key;
    EXPECT_NEAR(flat.to(at::kDouble).sum().item<double>(), sum, 1e-10) << key;
  }
}

TEST(RandomLinear, IsALinearLayerOn100Samples) {
  const auto workload = make_workload("random-linear");
  EXPECT_EQ(workload->samples(), 100);
  const auto batch = workload->batch(at::arange(30));
  EXPECT_EQ(batch.input.sizes(), (std::vector<int64_t>{30, 5}));
  EXPECT_EQ(batch.target.sizes(), (std::vector<int64_t>{30, 2}));
  const auto model = workload->model(1);
  const auto p = model->named_parameters();
  const auto output = model->forward(batch.input, {});
  EXPECT_TRUE(at::allclose(output, batch.input.matmul(p["fc.weight"].t()) + p["fc.bias"]));
  const auto loss = workload->loss(output, batch.target);
  EXPECT_TRUE(at::allclose(loss, (output - batch.target).square().sum() / 60));
}

TEST(Convnet, OutputsOfItsConvolutionsHaveTheShapesOfTheKerasGuide) {
  const auto workload = make_workload("convnet");
  const auto model = workload->model(1);
  auto x = workload->batch(at::arange(2)).input;
  const auto pass = [&](const char* name) { return x = model->named_children()[name]->as<Conv>()->forward(x); };
  EXPECT_EQ(pass("conv1").sizes(), (std::vector<int64_t>{2, 12, 28, 28}));
  EXPECT_EQ(pass("conv2").sizes(), (std::vector<int64_t>{2, 24, 12, 12}));
  EXPECT_EQ(pass("large_k").sizes(), (std::vector<int64_t>{2, 32, 6, 6}));
  EXPECT_EQ(model->named_children()["dropout"]->as<Dropout>() != nullptr, true);
}

// Keras and torch initialise differently: torch's default range is wider for dense1 and narrower for dense2.
TEST(Convnet, InitialisesDenseLayersWithinGlorotsBoundAndZeroBias) {
  const auto parameters = make_workload("convnet")->model(1)->named_parameters();
  for (const auto& [name, inputs, outputs] : {std::tuple{"dense1", 32, 256}, std::tuple{"dense2", 256, 10}}) {
    const at::Tensor weight = parameters[std::string(name) + ".weight"];
    ASSERT_EQ(weight.sizes(), (std::vector<int64_t>{outputs, inputs})) << name;
    const double bound = std::sqrt(6.0 / (inputs + outputs)), largest = weight.abs().max().item<double>();
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, 0.99 * bound) << name;
    EXPECT_NEAR(weight.var().item<double>(), bound * bound / 3, 0.08 * bound * bound / 3) << name;
    EXPECT_EQ(parameters[std::string(name) + ".bias"].abs().max().item<double>(), 0) << name;
  }
}

// The expected output is that of the same network built from torch's functions, layer by layer as in the Keras guide.
TEST(Convnet, HasTheOutputOfTheKerasGuidesNetworkBuiltFromTorchFunctions) {
  namespace F = torch::nn::functional;
  const auto workload = make_workload("convnet");
  const auto model = workload->model(2);
  const auto p = model->named_parameters();
  const auto batch = workload->batch(at::arange(8));
  const Context context{3, 4, batch.ids};
  const auto norm = [&](const at::Tensor& x, const char* bias) {
    const auto mean = x.mean({0, 2, 3}, true), var = x.var({0, 2, 3}, false, true);
    return torch::relu((x - mean) / (var + 1e-3).sqrt() + p[bias].view({1, -1, 1, 1}));
  };
  auto x = batch.input / 255;
  x = norm(F::conv2d(x, p["conv1.weight"], F::Conv2dFuncOptions().padding(1)), "norm1.bias");
  x = norm(F::conv2d(x, p["conv2.weight"], F::Conv2dFuncOptions().stride(2)), "norm2.bias");
  const auto same = F::pad(x, F::PadFuncOptions({2, 2, 2, 2}));
  x = norm(F::conv2d(same, p["large_k.weight"], F::Conv2dFuncOptions().stride(2).bias(p["large_k.bias"])),
           "norm3.bias");
  x = torch::relu(torch::linear(x.mean({2, 3}), p["dense1.weight"], p["dense1.bias"]));
  x = x * Dropout(0.5, 0).mask_by_loop(context, {0, 256});
  x = torch::linear(x, p["dense2.weight"], p["dense2.bias"]);
  EXPECT_TRUE(at::allclose(model->forward(batch.input, context), x, 1e-4, 1e-5));
}

TEST(Workloads, LossIsTheMeanOverSamples) {
  for (const auto& name : names) {
    const auto workload = make_workload(name);
    const auto batch = workload->batch(at::arange(6));
    const auto output = at::randn({6, name == "random-linear" ? 2 : 10});
    double sum = 0;
    for (int64_t i = 0; i < 6; ++i)
      sum += workload->loss(output.slice(0, i, i + 1), batch.target.slice(0, i, i + 1)).item<double>();
    EXPECT_NEAR(workload->loss(output, batch.target).item<double>(), sum / 6, 1e-6) << name;
    EXPECT_FALSE(workload->sum_loss());
  }
}

TEST(Workloads, RunInEveryDtypeAtScales1And2AndWithSmoothActivations) {
  for (const auto& name : names)
    for (const auto& options : {WorkloadOptions{}, WorkloadOptions{.scale = 2}, WorkloadOptions{.smooth = true}})
      for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        const auto workload = make_workload(name, options);
        const auto model = workload->model(1);
        if (dtype == at::kDouble) model->to(at::kDouble);
        const auto batch = workload->batch(at::arange(4));
        at::autocast::set_autocast_enabled(at::kCPU, dtype == at::kBFloat16);
        const auto input = dtype == at::kDouble ? batch.input.to(at::kDouble) : batch.input;
        const auto output = model->forward(input, {.ids = batch.ids});
        at::autocast::set_autocast_enabled(at::kCPU, false);
        at::autocast::clear_cache();
        const auto loss = workload->loss(output, batch.target);
        loss.backward();
        EXPECT_EQ(output.scalar_type(), dtype) << name;
        EXPECT_EQ(loss.scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat) << name;
        for (const auto& p : model->named_parameters()) {
          ASSERT_TRUE(p.value().grad().defined()) << name << " " << p.key();
          EXPECT_EQ(p.value().grad().scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat);
          EXPECT_TRUE(p.value().grad().isfinite().all().item<bool>()) << name << " " << p.key();
        }
      }
}

TEST(Workloads, ALargerScaleGivesMoreParametersAndLayers) {
  for (const auto& name : names) {
    const auto small = make_workload(name)->model(1), large = make_workload(name, {.scale = 3})->model(1);
    EXPECT_GT(trainable(*large), 3 * trainable(*small)) << name;
    EXPECT_GT(large->parameters().size(), small->parameters().size()) << name;
  }
}

TEST(Workloads, RefuseAScaleOutside1To64) {
  for (const auto& name : names)
    for (const int64_t scale : {-1, 0, 65}) EXPECT_THROW(make_workload(name, {.scale = scale}), UsageError) << name;
}

TEST(SmoothMnistMlp, HasTheParametersOfMnistMlpButAnotherOutput) {
  const auto plain = make_workload("mnist-mlp"), smooth = make_workload("mnist-mlp", {.smooth = true});
  EXPECT_TRUE(same_bits(*plain->model(1), *smooth->model(1)));
  const auto input = plain->batch(at::arange(4)).input;
  EXPECT_FALSE(at::allclose(plain->model(1)->forward(input, {}), smooth->model(1)->forward(input, {})));
}

TEST(Workloads, LossFallsIn20StepsOfTraining) {
  for (const auto& name : names) {
    const auto workload = make_workload(name);
    const auto model = workload->model(1);
    const auto batch = workload->batch(at::arange(30));
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    double first = 0, last = 0;
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      const auto loss = workload->loss(model->forward(batch.input, {1, step, batch.ids}), batch.target);
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, first) << name;
  }
}

}  // namespace
}  // namespace dpbench
