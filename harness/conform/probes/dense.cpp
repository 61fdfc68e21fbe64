// Dense probes (small test models). One has several layers, one a hundred tiny parameters. One has an empty parameter
// next to a parameter that is larger than a small bucket. One has a parameter just above 1 MiB, which is a usual size
// of the first gradient bucket and the size of a slot of the backend shm.
#include <memory>
#include <string>
#include <vector>

#include "harness/conform/probes/drawn.h"
#include "harness/conform/probes/probe.h"
#include "workloads/blocks/divided.h"
#include "workloads/layers/dropout.h"

namespace dpbench::probes {
namespace {

template <bool with_dropout>
class Mlp : public Model {
 public:
  explicit Mlp(uint64_t seed) {
    Seeded random(seed);
    const std::vector<int64_t> sizes = widths();
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      const auto name = std::to_string(i);
      weights_.push_back(register_parameter("w" + name, random({sizes[i + 1], sizes[i]})));
      biases_.push_back(register_parameter("b" + name, random({sizes[i + 1]})));
    }
    if (with_dropout) dropout_ = register_module("dropout", std::make_shared<Dropout>(0.1, /*layer=*/1));
  }
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    at::Tensor x = input;
    const TensorSplit* split = context.split.tensor.get();
    for (size_t i = 0; i < weights_.size(); ++i) {
      x = divided(Layer{weights_[i], biases_[i]}, x, cutting(i), split);
      if (i + 1 < weights_.size()) x = at::softplus(x);
      if (i == 0 && dropout_) x = dropout_->forward(x, context, split ? first_feature(*split) : 0);
    }
    return x;
  }

  TensorPlan tensor_plan(int ranks) const override {
    const auto sizes = even_pieces(features, ranks);
    TensorPlan plan;
    plan.cuts = {{"w0", 0, sizes}, {"b0", 0, sizes}, {"w1", 1, sizes}};
    plan.left[0].add(weights_[1].size(0), /*is_cast=*/true);
    return plan;
  }

 private:
  // Output features of the first layer, which tensor parallelism splits between ranks.
  static constexpr int64_t features = 9;
  struct Layer {
    at::Tensor forward(const at::Tensor& x) const { return at::linear(x, weight, bias_); }
    at::Tensor without_bias(const at::Tensor& x) const { return at::linear(x, weight); }
    at::Tensor bias() const { return bias_; }
    at::Tensor weight, bias_;
  };
  static std::vector<int64_t> widths() { return {6, features, 7, 3}; }
  static Cutting cutting(size_t layer) {
    return cutting_of(static_cast<int64_t>(layer), static_cast<int64_t>(widths().size()) - 1);
  }
  static int64_t first_feature(const TensorSplit& split) { return own_piece(features, split).first; }

  std::vector<at::Tensor> weights_, biases_;
  std::shared_ptr<Dropout> dropout_;
};

class ManyTiny : public Model {
 public:
  explicit ManyTiny(uint64_t seed) {
    Seeded random(seed);
    for (int i = 0; i < 100; ++i) {  // the tiny parameters have 0, 1 and 2 dimensions in turn
      const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {1, 3}};
      std::string name = "p";
      name += std::to_string(i);
      parts_.push_back(register_parameter(name, random(shapes[static_cast<size_t>(i % 3)])));
    }
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    at::Tensor x = input;
    for (size_t i = 0; i < parts_.size(); ++i) x = x + at::tanh(x * parts_[i]) * (0.02 * static_cast<double>(i % 5));
    return x;
  }

 private:
  std::vector<at::Tensor> parts_;
};

class OneLarge : public Model {
 public:
  explicit OneLarge(uint64_t seed) {
    Seeded random(seed);
    first_ = register_parameter("small", random({4}));
    wide_ = register_parameter("large", random({300, 4}));
    nothing_ = register_parameter("nothing", random({0, 300}));
    last_ = register_parameter("last", random({2, 300}, 0.05));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    const at::Tensor x = at::tanh(at::linear(input * first_, wide_));
    return at::cat({at::linear(x, last_), at::linear(x, nothing_)}, 1);
  }

 private:
  at::Tensor first_, wide_, nothing_, last_;
};

// A model with a parameter of drawn size, which is just larger than 1 MiB in float32 and 2 MiB in float64. 1 MiB is a
// usual size of the first gradient bucket, and the size of a slot of the backend shm. Above 2 MiB, shm uses a thread.
// It has an odd number of columns, so that no piece of 1 MiB ends at a row boundary.
class Wide : public Model {
 public:
  struct Sizes {
    explicit Sizes(uint64_t seed)
        : columns(2 * drawn(seed, 8, 150, 400) + 1), rows((1 << 18) / columns + drawn(seed, 9, 1, 8)) {}
    int64_t columns, rows;
  };
  Wide(uint64_t seed, const Sizes& sizes) {
    Seeded random(seed);
    first_ = register_parameter("first", random({sizes.columns, 5}));
    wide_ = register_parameter("wide", random({sizes.rows, sizes.columns}, 0.05));
    last_ = register_parameter("last", random({3, sizes.rows}, 0.05));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::linear(at::tanh(at::linear(at::tanh(at::linear(input, first_)), wide_)), last_);
  }

 private:
  at::Tensor first_, wide_, last_;
};

// Momentum with a smaller learning rate than the other probes have. With theirs, a layer of 300 inputs would diverge.
OptimizerSpec slow_momentum() {
  OptimizerSpec spec = probe_momentum();
  spec.learning_rate = 0.01;
  return spec;
}

const RegisterWorkload mlp{
    thorough(probe<Mlp<true>>("probe-mlp", "three smooth layers, dropout, AdamW", {6}, 3, probe_adamw()))};
const RegisterWorkload mlp_sgd{thorough(probe<Mlp<false>>(
    "probe-mlp-sgd", "three smooth layers, SGD with a schedule of its learning rate", {6}, 3, probe_schedule()))};
const RegisterWorkload many{
    probe<ManyTiny>("probe-many", "100 tiny parameters of 0, 1 and 2 dimensions", {3}, 3, probe_adam())};
const RegisterWorkload large{probe<OneLarge>(
    "probe-large", "a parameter larger than a bucket, and one without elements", {4}, 2, slow_momentum())};

std::unique_ptr<Workload> make_wide(const WorkloadOptions& options) {
  const OptimizerSpec slow{.kind = OptimizerSpec::Kind::sgd, .learning_rate = 0.0005};
  const auto model = [sizes = Wide::Sizes(options.seed)](uint64_t seed) { return std::make_shared<Wide>(seed, sizes); };
  return std::make_unique<Probe>(model, std::vector<int64_t>{5}, 3, slow);
}

const RegisterWorkload wide{thorough({.name = "probe-wide",
                                      .summary = "a parameter just above 1 MiB, of drawn sizes",
                                      .scaling = Scaling::weak,
                                      .batch = 4,
                                      .make = make_wide,
                                      .probe = true})};

}  // namespace
}  // namespace dpbench::probes
