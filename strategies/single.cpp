// "cpu" and "gpu": one device, the whole batch. The baselines that everything else is held against.
#include <ATen/ATen.h>

#include "strategies/recorded.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

class Single : public TrainedStrategy {
 public:
  explicit Single(const Setup& setup)
      : TrainedStrategy(setup),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed) {
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    replica_.clear_gradients();
    const StepResult result = replica_.passes(workload_, step, micro, phases);
    apply_gradients(phases);
    return result;
  }

 private:
  Replica replica_;
};

std::unique_ptr<StepRecorder> recorder_of(at::Device device) {
  if (!step_recorder()) throw UsageError("gpu.graph=on needs the CUDA library, which is not loaded; use gpu.graph=off");
  return step_recorder()(device);
}

const RegisterStrategy cpu{{.name = "cpu",
                            .summary = "one CPU device: the baseline",
                            .parallelism = Parallelism::single,
                            .gradient = Gradient::gathered,
                            .buffers = Buffers::first_replica,
                            .cuda = false,
                            .make = make<Single>}};
const RegisterStrategy gpu{
    {.name = "gpu",
     .summary = "one GPU: the baseline",
     .parallelism = Parallelism::single,
     .gradient = Gradient::gathered,
     .buffers = Buffers::first_replica,
     .cpu = false,
     .params = {{"graph", "off", "on: a step is recorded as a CUDA graph and replayed as a whole"}},
     .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
       if (!setup.params.flag("graph")) return std::make_unique<Single>(setup);
       return make_recorded(setup, recorder_of(setup.devices.at(0)));
     },
     .promise = [](StrategyInfo& info, const Params& params) { info.same_graph = params.flag("graph"); },
     .variants = {{"graph", {{"graph", "on"}}}}}};

}  // namespace
}  // namespace dpbench
