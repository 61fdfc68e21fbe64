// The exact probe: a linear test model with a sum loss, whose gradients are exact in any order of summation. Each
// rank's gradient is the world size R times a power of two. Its product with 1/R, rounded to float32 or float64, is
// then a power of two for every R up to 40.
#include <memory>

#include "harness/conform/probes/probe.h"

namespace dpbench::probes {
namespace {

constexpr int64_t features = 37, row_count = 64;

// Returns the sign of the inputs in each column. The weights start with the opposite sign. The loss is the sum of the
// outputs, so training only increases the weights' magnitude. All terms of an output and of a loss are therefore
// negative, and rounding errors stay small relative to their sum.
at::Tensor signs() {
  return at::where(at::arange(features + 1).remainder(3) == 0, at::full({}, -1.f), at::full({}, 1.f));
}

class Linear : public Model {
 public:
  explicit Linear(uint64_t seed) {
    Seeded random(seed);
    const at::Tensor start = random({features + 1}).abs_().mul_(-signs());
    weight_ = register_parameter("weight", start.slice(0, 0, features).unsqueeze(0).clone());
    bias_ = register_parameter("bias", start.slice(0, features).clone());
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::linear(input.slice(1, 0, features), weight_) + input.slice(1, features) * bias_;
  }

 private:
  at::Tensor weight_, bias_;
};

class Exact : public Workload {
 public:
  // options: WorkloadOptions::scale must be the world size.
  explicit Exact(const WorkloadOptions& options) {
    input_ = at::empty({row_count, features + 1});
    auto values = input_.accessor<float, 2>();
    for (int64_t i = 0; i < row_count; ++i)
      for (int64_t j = 0; j <= features; ++j) {
        // Each input is the world size times a power of two. Rows differ in their exponents, and so do columns. The
        // gradient therefore shows which sample and which feature it comes from.
        const int64_t mixed = (i + 1) * (j + 3) % 67 % 13;
        values[i][j] = static_cast<float>(options.scale) * static_cast<float>(1 << mixed);
      }
    input_ *= signs();
  }
  int64_t samples() const override { return row_count; }
  std::shared_ptr<Model> model(uint64_t seed) const override { return std::make_shared<Linear>(seed); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.sum(); }
  bool sum_loss() const override { return true; }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0x1p-20}; }
  Batch batch(const at::Tensor& ids) const override {
    return {input_.index_select(0, ids), at::zeros({ids.size(0), 1}), ids};
  }

 private:
  at::Tensor input_;
};

const RegisterWorkload exact{{.name = "probe-exact",
                              .summary = "gradients with sums that are exact in any order",
                              .scaling = Scaling::weak,
                              .batch = 1,
                              .make = [](const WorkloadOptions& options) { return std::make_unique<Exact>(options); },
                              .probe = true,
                              .thorough = true}};

}  // namespace
}  // namespace dpbench::probes
