// A probe whose rows depend on each other: BatchNorm, with a counter among its buffers that is no floating point number.
#include "harness/conform/probes/probe.h"

namespace dpbench::probes {
namespace {

class Normed : public Model {
 public:
  explicit Normed(uint64_t seed) {
    Seeded random(seed);
    kernel_ = register_parameter("kernel", random({4, 2, 3, 3}));
    scale_ = register_parameter("scale", random({4}) + 1);
    shift_ = register_parameter("shift", random({4}));
    out_ = register_parameter("out", random({3, 4}));
    mean_ = register_buffer("running_mean", at::zeros({4}));
    var_ = register_buffer("running_var", at::ones({4}));
    batches_ = register_buffer("batches", at::zeros({}, at::kLong));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    if (is_training()) batches_.add_(1);
    const at::Tensor x = at::conv2d(input, kernel_);
    const at::Tensor normed = at::batch_norm(x, scale_, shift_, mean_, var_, is_training(), 0.1, 1e-3, false);
    return at::linear(at::softplus(normed).mean(at::IntArrayRef{2, 3}), out_);
  }

 private:
  at::Tensor kernel_, scale_, shift_, out_, mean_, var_, batches_;
};

const RegisterWorkload normed{probe<Normed>("probe-batch-norm", "BatchNorm with statistics and a counter", {2, 6, 6}, 3,
                                            probe_sgd())};

}  // namespace
}  // namespace dpbench::probes
