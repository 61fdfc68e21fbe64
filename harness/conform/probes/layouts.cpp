// Probes (small test models) whose parameters are not contiguous float32: transposed, channels_last, mixed dtypes.
#include "harness/conform/probes/probe.h"

namespace dpbench::probes {
namespace {

class Strided : public Model {
 public:
  explicit Strided(uint64_t seed) {
    Seeded random(seed);
    kernel_ = register_parameter("kernel", random({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
    turned_ = register_parameter("turned", random({4, 5}).t());
    bias_ = register_parameter("bias", random({5}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    const at::Tensor x = at::tanh(at::conv2d(input, kernel_));
    return at::linear(x.mean(at::IntArrayRef{2, 3}), turned_, bias_);
  }

 private:
  at::Tensor kernel_, turned_, bias_;
};

// A model with one layer each in float32, float64, bfloat16 and float16. Gradients must be reduced in their layer's
// dtype, and a bucket can hold only one dtype.
class Mixed : public Model {
 public:
  explicit Mixed(uint64_t seed) {
    Seeded random(seed);
    first_ = register_parameter("first", random({5, 4}));
    precise_ = register_parameter("precise", random({5, 5}).to(at::kDouble));
    brain_ = register_parameter("brain", random({5, 5}).to(at::kBFloat16));
    half_ = register_parameter("half", random({5, 5}).to(at::kHalf));
    bias_ = register_parameter("bias", random({5}));
    out_ = register_parameter("out", random({2, 5}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    at::Tensor x = at::tanh(at::linear(input, first_, bias_));
    for (const at::Tensor& layer : {brain_, half_, precise_})
      x = at::tanh(at::linear(x.to(layer.scalar_type()), layer));
    return at::linear(x.to(out_.scalar_type()), out_);
  }

 private:
  at::Tensor first_, precise_, brain_, half_, bias_, out_;
};

const RegisterWorkload strided{
    probe<Strided>("probe-strided", "transposed and channels_last parameters", {3, 5, 5}, 5, probe_adam())};
const RegisterWorkload mixed{
    probe<Mixed>("probe-mixed", "float16, bfloat16, float32 and float64 parameters in one model", {4}, 2, probe_sgd())};

}  // namespace
}  // namespace dpbench::probes
