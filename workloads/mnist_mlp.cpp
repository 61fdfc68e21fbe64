// The workload mnist-mlp: Flatten, Linear 784 -> 128, ReLU, Linear 128 -> 10 on MNIST with pixels in [0, 1].
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/blocks/divided.h"
#include "workloads/data/digits.h"
#include "workloads/layers/activation.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"

namespace dpbench {
namespace {

constexpr int64_t hidden_units = 128;

// The submodule "n" numbers its layers as PyTorch's Sequential(Flatten, Linear, ReLU, Linear) would, so parameters are
// named n.1.weight, n.3.weight and so on. With --scale K, the model has K hidden layers of width 128 K.
class MnistMlp : public Model {
 public:
  MnistMlp(uint64_t seed, int64_t scale, bool smooth) {
    const auto generator = own_generator(seed);
    const auto stack = register_module("n", std::make_shared<torch::nn::Module>("n"));
    int64_t width = image_bytes;
    for (int64_t depth = 0; depth <= scale; ++depth) {
      const int64_t next = depth < scale ? hidden_units * scale : digit_classes;
      const auto name = std::to_string(1 + 2 * depth);
      const auto layer = stack->register_module(name, std::make_shared<Linear>(width, next, Init::torch, generator));
      const bool first = depth == 0, last = depth == scale;
      const Cutting cutting = cutting_of(depth, scale + 1);
      layers_.push_back({.name = "n." + name, .inputs = width, .outputs = next});
      add_block({"n." + name, {layer}, [=](const at::Tensor& x, const Context& context) {
                   at::Tensor y = divided(*layer, first ? x.flatten(1) : x, cutting, context.split.tensor.get());
                   return last ? y : activate(std::move(y), smooth);
                 }});
      width = next;
    }
  }

  TensorPlan tensor_plan(int ranks) const override { return plan_of_stack(layers_, ranks); }

 private:
  std::vector<StackLayer> layers_;
};

class MnistMlpWorkload : public DigitsWorkload {
 public:
  explicit MnistMlpWorkload(const WorkloadOptions& options)
      : DigitsWorkload(options, PixelRange::unit), scale_(checked_scale(options)), smooth_(options.smooth) {}

  std::shared_ptr<Model> model(uint64_t seed) const override {
    return std::make_shared<MnistMlp>(seed, scale_, smooth_);
  }
  OptimizerSpec optimizer() const override { return {.kind = OptimizerSpec::Kind::sgd, .learning_rate = 1e-3}; }

 private:
  int64_t scale_;
  bool smooth_;
};

const RegisterWorkload mnist_mlp{{.name = "mnist-mlp",
                                  .summary = "Linear 784-128-10 on MNIST, cross-entropy, SGD",
                                  .scaling = Scaling::weak,
                                  .batch = 64,
                                  .make = [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
                                    return std::make_unique<MnistMlpWorkload>(options);
                                  },
                                  .digits = true}};

}  // namespace
}  // namespace dpbench
