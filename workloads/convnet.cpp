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

// Keras' defaults for BatchNorm. norm_momentum is the weight of the new value; Keras states the weight of the old
// value, 0.99.
constexpr double norm_epsilon = 1e-3, norm_momentum = 0.01;
constexpr double dropout_rate = 0.5;

// Padding of the 6x6 kernel with stride 2, as in Keras' "same" mode: a 12x12 input and 6x6 output need 4 extra rows, 2
// on each side.
constexpr int64_t large_k_padding = 2;
constexpr int64_t last_side = 6;  // height and width of the output of large_k and of later convolutions

// With --scale K, filters and units are multiplied by K, and K - 1 convolutions of 3x3 follow the layer large_k.
class Convnet : public Model {
 public:
  Convnet(uint64_t seed, int64_t scale, bool smooth) {
    const auto generator = own_generator(seed);
    const int64_t first = 12 * scale, second = 24 * scale, third = 32 * scale, units = 256 * scale;
    const int64_t depths = scale + 4;  // number of layers: convolutions, dense1 and dense2
    int64_t pixels_in = image_side * image_side;
    const auto convolution = [&](const std::string& conv, const std::string& norm, const ConvShape& shape,
                                 int64_t side) {
      const auto layer = register_module(conv, std::make_shared<Conv>(shape, Init::glorot, generator));
      const auto after = register_module(norm, std::make_shared<BatchNorm>(shape.outputs, norm_epsilon, norm_momentum));
      const bool pixels = blocks().empty();
      const Cutting cutting = cutting_of(static_cast<int64_t>(blocks().size()), depths);
      layers_.push_back({.name = conv,
                         .inputs = shape.inputs,
                         .outputs = shape.outputs,
                         .pixels_in = pixels_in,
                         .pixels_out = side * side,
                         .has_bias = shape.bias,
                         .per_output = {norm + ".bias", norm + ".running_mean", norm + ".running_var"}});
      pixels_in = side * side;
      add_block({conv, {layer, after}, [=](const at::Tensor& input, const Context& context) {
                   const at::Tensor x = pixels ? input * (1.0 / 255) : input;
                   return activate(after->forward(divided(*layer, x, cutting, context.split.tensor.get())), smooth);
                 }});
    };
    convolution("conv1", "norm1", {.inputs = 1, .outputs = first, .kernel = 3, .padding = 1}, image_side);
    convolution("conv2", "norm2", {.inputs = first, .outputs = second, .kernel = 6, .stride = 2}, /*side=*/12);
    convolution(
        "large_k", "norm3",
        {.inputs = second, .outputs = third, .kernel = 6, .stride = 2, .padding = large_k_padding, .bias = true},
        last_side);
    for (int64_t depth = 1; depth < scale; ++depth) {
      const auto number = std::to_string(depth + 3);
      convolution("conv" + number, "norm" + number, {.inputs = third, .outputs = third, .kernel = 3, .padding = 1},
                  last_side);
    }
    const auto dense1 = register_module("dense1", std::make_shared<Linear>(third, units, Init::glorot, generator));
    const auto dropout = register_module("dropout", std::make_shared<Dropout>(dropout_rate, /*layer=*/0));
    const auto dense2 =
        register_module("dense2", std::make_shared<Linear>(units, digit_classes, Init::glorot, generator));
    const Cutting cutting1 = cutting_of(depths - 2, depths), cutting2 = cutting_of(depths - 1, depths);
    layers_.push_back({.name = "dense1", .inputs = third, .outputs = units});
    layers_.push_back({.name = "dense2", .inputs = units, .outputs = digit_classes});
    add_block({"dense1", {dense1, dropout}, [=](const at::Tensor& x, const Context& context) {
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

  TensorPlan tensor_plan(int ranks) const override { return plan_of_stack(layers_, ranks); }

 private:
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
