// Probes: small test models, each designed to catch one kind of bug. The probes in this folder are smooth functions, so
// a rounding error cannot flip a ReLU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "workloads/api/workload.h"

namespace dpbench::probes {

// The data set of the probes in this folder, except the exact probe: the target is a fixed smooth function of the
// input, so a model can learn it. Output columns beyond the target's width do not affect the loss.
class Probe : public Workload {
 public:
  using MakeModel = std::function<std::shared_ptr<Model>(uint64_t seed)>;

  Probe(MakeModel make, std::vector<int64_t> row, int64_t outputs, OptimizerSpec optimizer)
      : make_(std::move(make)), optimizer_(std::move(optimizer)) {
    auto generator = at::detail::createCPUGenerator(20);
    row.insert(row.begin(), samples());
    input_ = at::randn(row, generator);
    const at::Tensor flat = input_.flatten(1);
    target_ = at::tanh(flat.matmul(at::randn({flat.size(1), outputs}, generator)));
  }

  int64_t samples() const override { return 211; }
  std::shared_ptr<Model> model(uint64_t seed) const override { return make_(seed); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output.narrow(1, 0, target.size(1)), target.to(output.scalar_type()));
  }
  OptimizerSpec optimizer() const override { return optimizer_; }
  Batch batch(const at::Tensor& ids) const override {
    return {input_.index_select(0, ids), target_.index_select(0, ids), ids};
  }

 private:
  MakeModel make_;
  OptimizerSpec optimizer_;
  at::Tensor input_, target_;
};

// Draws random tensors from its own generator, so the same seed gives the same bits on any thread.
class Seeded {
 public:
  explicit Seeded(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}
  at::Tensor operator()(at::IntArrayRef sizes, double size = 0.5) { return at::randn(sizes, generator_) * size; }

 private:
  at::Generator generator_;
};

inline OptimizerSpec probe_sgd() { return {.kind = OptimizerSpec::Kind::sgd, .learning_rate = 0.05}; }
inline OptimizerSpec probe_adam() { return {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.01}; }
// SGD with momentum.
inline OptimizerSpec probe_momentum() {
  OptimizerSpec spec = probe_sgd();
  spec.momentum = 0.75;
  return spec;
}
// SGD with a learning rate that rises for 4 steps, falls for 12 and then stays at a quarter of its peak.
inline OptimizerSpec probe_schedule() {
  OptimizerSpec spec = probe_sgd();
  spec.warmup_steps = 4;
  spec.decay_steps = 12;
  spec.final_fraction = 0.25;
  return spec;
}
inline OptimizerSpec probe_adamw() {
  OptimizerSpec spec = probe_adam();
  spec.weight_decay = 0.5;
  return spec;
}

template <class M>
std::shared_ptr<Model> make_model(uint64_t seed) {
  return std::make_shared<M>(seed);
}

template <class M>
WorkloadInfo probe(const std::string& name, const std::string& summary, const std::vector<int64_t>& row,
                   int64_t outputs, const OptimizerSpec& optimizer) {
  return {
      .name = name,
      .summary = summary,
      .scaling = Scaling::weak,
      .batch = 4,
      .make = [=](const WorkloadOptions&) { return std::make_unique<Probe>(make_model<M>, row, outputs, optimizer); },
      .probe = true};
}

inline WorkloadInfo thorough(WorkloadInfo info) {
  info.thorough = true;
  return info;
}

}  // namespace dpbench::probes
