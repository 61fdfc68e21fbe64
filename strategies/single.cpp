// The strategies "cpu" and "gpu", which train the whole batch on one device. They are the baselines of all others.
#include <memory>
#include <span>

#include <ATen/ATen.h>

#include "strategies/api/parts/trained.h"
#include "strategies/graphs/recorded.h"
#include "strategies/graphs/recorded_steps.h"
#include "strategies/parts/tf32.h"

namespace dpbench {
namespace {

class Single : public TrainedStrategy {
 public:
  explicit Single(const Setup& setup, bool tf32 = false, bool onednn = false)
      : TrainedStrategy(setup), tf32_(tf32, setup.devices.at(0), "gpu") {
    insides_->own->use_onednn(onednn, "cpu");
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const StepResult result = passes(step, micro, phases);
    apply_gradients(step, phases);
    return result;
  }

 private:
  Tf32 tf32_;
};

std::unique_ptr<Strategy> make_cpu(const Setup& setup) {
  return std::make_unique<Single>(setup, /*tf32=*/false, setup.params.flag("onednn"));
}

std::unique_ptr<Strategy> make_gpu(const Setup& setup) {
  const bool tf32 = setup.params.flag("tf32");
  if (!setup.params.flag("graph")) return std::make_unique<Single>(setup, tf32);
  return make_recorded(setup, recorder_for(setup, "gpu.graph=on"), tf32);
}

const RegisterStrategy cpu{{.name = "cpu",
                            .summary = "one CPU device: the baseline",
                            .parallelism = Parallelism::single,
                            .gradient = Gradient::gathered,
                            .buffers = Buffers::first_replica,
                            .cuda = false,
                            .params = {onednn_param()},
                            .make = make_cpu,
                            .promise = promise_onednn,
                            .variants = {onednn_variant()}}};
const RegisterStrategy gpu{
    {.name = "gpu",
     .summary = "one GPU: the baseline",
     .parallelism = Parallelism::single,
     .gradient = Gradient::gathered,
     .buffers = Buffers::first_replica,
     .cpu = false,
     .params = {{"graph", "off", "on: record each step as one CUDA graph and replay it"},
                {"tf32", "off", "on: allow TF32 (10-bit mantissa) in float32 products"}},
     .settings = {.unrecorded = {{"graph", "off"}}},
     .make = make_gpu,
     .promise = [](StrategyInfo& info,
                   const Params& params) { info.same_graph = info.recorded = params.flag("graph"); },
     .variants = {{"graph", {{"graph", "on"}}}}}};

}  // namespace
}  // namespace dpbench
