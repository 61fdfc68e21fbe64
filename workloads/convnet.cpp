// The workload convnet: the Keras guide's network with BatchNorm and Dropout on MNIST with pixels 0..255, in NCHW.
#include <memory>
#include <string>
#include <vector>

#include "workloads/blocks/divided.h"
#include "workloads/data/digits.h"
#include "workloads/layers/activation.h"
#include "workloads/layers/batch_norm.h"
#include "workloads/layers/conv.h"
#include "workloads/layers/dropout.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"

namespace dpbench {
namespace {

// The values that Keras uses by default for BatchNorm. norm_momentum is the weight of the new value in the running
// statistics; Keras gives the weight of the old value, 0.99.
constexpr double norm_epsilon = 1e-3, norm_momentum = 0.01;
constexpr double dropout_rate = 0.5;

// Padding of the convolution large_k, which has a 6x6 kernel and stride 2. It is that of Keras' "same" mode: 4 extra
// rows, 2 on each side, turn a 12x12 input into a 6x6 output.
constexpr int64_t large_k_padding = 2;
// Height and width of the outputs of the convolution large_k and of all convolutions after it.
constexpr int64_t last_side = 6;

// With --scale K, the numbers of filters and units are multiplied by K, and K - 1 convolutions with 3x3 kernels follow
// the convolution large_k.
class Convnet : public Model {
 public:
  Convnet(uint64_t seed, int64_t scale, bool smooth)
      : generator_(own_generator(seed)), layer_count_(scale + 4), smooth_(smooth) {
    const int64_t first = 12 * scale, second = 24 * scale, third = 32 * scale;
    add_convolution("1", "conv1", {.inputs = 1, .outputs = first, .kernel = 3, .padding = 1}, image_side);
    add_convolution("2", "conv2", {.inputs = first, .outputs = second, .kernel = 6, .stride = 2}, /*side=*/12);
    add_convolution(
        "3", "large_k",
        {.inputs = second, .outputs = third, .kernel = 6, .stride = 2, .padding = large_k_padding, .bias = true},
        last_side);
    for (int64_t depth = 1; depth < scale; ++depth) {
      const auto number = std::to_string(depth + 3);
      add_convolution(number, "conv" + number, {.inputs = third, .outputs = third, .kernel = 3, .padding = 1},
                      last_side);
    }
    add_classifier(third, 256 * scale);
  }

  TensorPlan tensor_plan(int ranks) const override { return plan_of_stack(layers_, ranks); }

 private:
  // Adds a convolution with its BatchNorm. side: height and width of the output.
  void add_convolution(const std::string& number, const std::string& name, const ConvShape& shape, int64_t side) {
    const std::string norm = "norm" + number;
    const auto layer = register_module(name, std::make_shared<Conv>(shape, Init::glorot, generator_));
    const auto after = register_module(norm, std::make_shared<BatchNorm>(shape.outputs, norm_epsilon, norm_momentum));
    const bool pixels = blocks().empty();
    const Cutting cutting = cutting_of(static_cast<int64_t>(blocks().size()), layer_count_);
    layers_.push_back({.name = name,
                       .inputs = shape.inputs,
                       .outputs = shape.outputs,
                       .pixels_in = pixels ? image_side * image_side : layers_.back().pixels_out,
                       .pixels_out = side * side,
                       .has_bias = shape.bias,
                       .per_output = {norm + ".bias", norm + ".running_mean", norm + ".running_var"}});
    add_block({name, {layer, after}, [=, smooth = smooth_](const at::Tensor& input, const Context& context) {
                 const at::Tensor x = pixels ? input * (1.0 / 255) : input;
                 return activate(after->forward(divided(*layer, x, cutting, context.split.tensor.get())), smooth);
               }});
  }

  // Adds the layers dense1, with dropout, and dense2.
  void add_classifier(int64_t features, int64_t units) {
    const auto dense1 = register_module("dense1", std::make_shared<Linear>(features, units, Init::glorot, generator_));
    const auto dropout = register_module("dropout", std::make_shared<Dropout>(dropout_rate, /*layer=*/0));
    const auto dense2 =
        register_module("dense2", std::make_shared<Linear>(units, digit_classes, Init::glorot, generator_));
    const Cutting cutting1 = cutting_of(layer_count_ - 2, layer_count_),
                  cutting2 = cutting_of(layer_count_ - 1, layer_count_);
    layers_.push_back({.name = "dense1", .inputs = features, .outputs = units});
    layers_.push_back({.name = "dense2", .inputs = units, .outputs = digit_classes});
    add_block({"dense1", {dense1, dropout}, [=, smooth = smooth_](const at::Tensor& x, const Context& context) {
                 const TensorSplit* split = context.split.tensor.get();
                 const bool cut = split && cutting1 == Cutting::outputs;
                 const int64_t unit = cut ? own_piece(units, *split).first : 0;
                 const at::Tensor y = activate(divided(*dense1, x.mean({2, 3}), cutting1, split), smooth);
                 return dropout->forward(y, context, unit);
               }});
    add_block({"dense2", {dense2}, [=](const at::Tensor& x, const Context& context) {
                 return divided(*dense2, x, cutting2, context.split.tensor.get());
               }});
  }

  at::Generator generator_;
  int64_t layer_count_;  // number of convolutions and fully connected layers
  bool smooth_;
  std::vector<StackLayer> layers_;
};

class ConvnetWorkload : public DigitsWorkload {
 public:
  explicit ConvnetWorkload(const WorkloadOptions& options)
      : DigitsWorkload(options, PixelRange::bytes), scale_(checked_scale(options)), smooth_(options.smooth) {}

  std::shared_ptr<Model> model(uint64_t seed) const override {
    return std::make_shared<Convnet>(seed, scale_, smooth_);
  }
  // Adam with torch's epsilon 1e-8, not Keras' 1e-7, because the Keras guide's PyTorch version trains with
  // torch.optim.Adam.
  OptimizerSpec optimizer() const override { return {.kind = OptimizerSpec::Kind::adam, .learning_rate = 1e-3}; }

 private:
  int64_t scale_;
  bool smooth_;
};

const RegisterWorkload convnet{{.name = "convnet",
                                .summary = "three convolutions with BatchNorm and Dropout on MNIST, Adam",
                                .scaling = Scaling::weak,
                                .batch = 64,
                                .make = [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
                                  return std::make_unique<ConvnetWorkload>(options);
                                },
                                .recipe = {.shuffle = false},
                                .digits = true}};

}  // namespace
}  // namespace dpbench
