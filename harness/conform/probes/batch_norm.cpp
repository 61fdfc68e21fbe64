// A probe (small test model) whose samples influence each other through BatchNorm. Its buffers include an integer
// counter.
#include <memory>

#include "harness/conform/probes/probe.h"
#include "workloads/layers/batch_norm.h"

namespace dpbench::probes {
namespace {

class Normed : public Model {
 public:
  explicit Normed(uint64_t seed) {
    Seeded random(seed);
    kernel_ = register_parameter("kernel", random({4, 2, 3, 3}));
    scale_ = register_parameter("scale", random({4}) + 1);
    out_ = register_parameter("out", random({3, 4}));
    norm_ = register_module("norm", std::make_shared<BatchNorm>(4, 1e-3, 0.1));
    batches_ = register_buffer("batches", at::zeros({}, at::kLong));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    if (is_training()) batches_.add_(1);
    const at::Tensor normed = norm_->forward(at::conv2d(input, kernel_));
    return at::linear(at::softplus(normed * scale_.view({4, 1, 1})).mean(at::IntArrayRef{2, 3}), out_);
  }

 private:
  at::Tensor kernel_, scale_, out_, batches_;
  std::shared_ptr<BatchNorm> norm_;
};

const RegisterWorkload normed{thorough(probe<Normed>(
    "probe-batch-norm", "BatchNorm with statistics and a counter, SGD with momentum", {2, 6, 6}, 3, probe_momentum()))};

}  // namespace
}  // namespace dpbench::probes
