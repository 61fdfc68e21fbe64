// Registers a workload "own-curve" (a cubic fitted to a sine) and a backend "own-relay" (shm under another name).
#include <ATen/ATen.h>

#include "strategies/api/backend.h"
#include "workloads/api/workload.h"

namespace {

using namespace dpbench;

class Cubic : public Model {
 public:
  explicit Cubic(uint64_t seed) {
    weights_ = register_parameter("weights", at::arange(1, 5) * (0.1 + 0.01 * double(seed % 7)));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::stack({at::ones_like(input), input, input.square(), input.pow(3)}, 1).matmul(weights_);
  }

 private:
  at::Tensor weights_;
};

class Curve : public Workload {
 public:
  int64_t samples() const override { return 61; }
  std::shared_ptr<Model> model(uint64_t seed) const override { return std::make_shared<Cubic>(seed); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.05}; }
  Batch batch(const at::Tensor& ids) const override {
    const at::Tensor x = ids.to(at::kFloat) / 30 - 1;
    return {x, at::sin(x * 2), ids};
  }
};

const RegisterWorkload curve{
    {.name = "own-curve", .summary = "a cubic through a sine", .batch = 4, .make = [](const WorkloadOptions&) {
       return std::make_unique<Curve>();
     }}};
const RegisterBackend relay{
    {.name = "own-relay", .summary = "shm under another name", .make = [](const BackendSetup& setup) {
       return backend_registry().at("shm").make(setup);
     }}};

}  // namespace
