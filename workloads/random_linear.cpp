// The workload random-linear: the DataParallel tutorial's Linear(5, 2) on 100 random samples, with random targets and
// squared error.
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/randn.h>

#include "workloads/api/workload.h"
#include "workloads/blocks/divided.h"
#include "workloads/layers/activation.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"

namespace dpbench {
namespace {

constexpr int64_t linear_rows = 100, linear_inputs = 5, linear_outputs = 2;
constexpr int64_t scaled_width = 256;      // with --scale K, hidden layers are K times this wide
constexpr uint64_t linear_data_seed = 30;  // random seed of the samples, independent of the model's seed

// With --scale K > 1, there are K - 1 hidden layers of width 256 K before the layer fc.
class RandomLinear : public Model {
 public:
  RandomLinear(uint64_t seed, int64_t scale, bool smooth) {
    const auto generator = own_generator(seed);
    int64_t width = linear_inputs;
    for (int64_t depth = 1; depth < scale; ++depth) {
      const auto name = "hidden" + std::to_string(depth);
      const auto layer =
          register_module(name, std::make_shared<Linear>(width, scaled_width * scale, Init::torch, generator));
      const Cutting cutting = cutting_of(depth - 1, scale);
      layers_.push_back({.name = name, .inputs = width, .outputs = scaled_width * scale});
      add_block({name, {layer}, [=](const at::Tensor& x, const Context& context) {
                   return activate(divided(*layer, x, cutting, context.split.tensor.get()), smooth);
                 }});
      width = scaled_width * scale;
    }
    const auto fc = register_module("fc", std::make_shared<Linear>(width, linear_outputs, Init::torch, generator));
    const Cutting cutting = cutting_of(scale - 1, scale);
    layers_.push_back({.name = "fc", .inputs = width, .outputs = linear_outputs});
    add_block({"fc", {fc}, [=](const at::Tensor& x, const Context& context) {
                 return divided(*fc, x, cutting, context.split.tensor.get());
               }});
  }

  TensorPlan tensor_plan(int ranks) const override { return plan_of_stack(layers_, ranks); }

 private:
  std::vector<StackLayer> layers_;
};

class RandomLinearWorkload : public Workload {
 public:
  explicit RandomLinearWorkload(const WorkloadOptions& options)
      : scale_(checked_scale(options)), smooth_(options.smooth) {
    const auto generator = own_generator(linear_data_seed);
    input_ = at::randn({linear_rows, linear_inputs}, generator);
    target_ = at::randn({linear_rows, linear_outputs}, generator);
  }

  int64_t samples() const override { return linear_rows; }
  std::shared_ptr<Model> model(uint64_t seed) const override {
    return std::make_shared<RandomLinear>(seed, scale_, smooth_);
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return mean_squared_error(output, target);
  }
  OptimizerSpec optimizer() const override { return {.kind = OptimizerSpec::Kind::sgd, .learning_rate = 1e-3}; }
  Batch batch(const at::Tensor& ids) const override {
    return {input_.index_select(0, ids), target_.index_select(0, ids), ids};
  }

 private:
  int64_t scale_;
  bool smooth_;
  at::Tensor input_, target_;
};

const RegisterWorkload random_linear{{.name = "random-linear",
                                      .summary = "Linear(5, 2) on 100 random samples, squared error, SGD",
                                      .scaling = Scaling::strong,
                                      .batch = 30,
                                      .make = [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
                                        return std::make_unique<RandomLinearWorkload>(options);
                                      },
                                      .recipe = {.epochs = 1}}};

}  // namespace
}  // namespace dpbench
