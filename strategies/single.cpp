// "cpu" and "gpu": one device, the whole batch. The baselines that everything else is held against.
#include <ATen/ATen.h>

#include "strategies/recorded.h"
#include "strategies/recorded_steps.h"
#include "strategies/tf32.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

class Single : public TrainedStrategy {
 public:
  explicit Single(const Setup& setup, bool tf32 = false)
      : TrainedStrategy(setup),
        tf32_(tf32, setup.devices.at(0), "gpu"),
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
  Tf32 tf32_;
  Replica replica_;
};

// The switch stays for as long as the strategy that records: its first step is not recorded.
class Tf32Recorder : public StepRecorder {
 public:
  Tf32Recorder(at::Device device, std::unique_ptr<StepRecorder> recorder) : tf32_(true, device, "gpu"), recorder_(std::move(recorder)) {}
  bool takes_backend(const std::string& name) const override { return recorder_->takes_backend(name); }
  std::unique_ptr<StepGraph> record(const std::function<void()>& body) override { return recorder_->record(body); }

 private:
  Tf32 tf32_;
  std::unique_ptr<StepRecorder> recorder_;
};

std::unique_ptr<Strategy> make_gpu(const Setup& setup) {
  const bool tf32 = setup.params.flag("tf32");
  if (!setup.params.flag("graph")) return std::make_unique<Single>(setup, tf32);
  const at::Device device = setup.devices.at(0);
  auto recorder = recorder_for(setup, "gpu.graph=on");
  if (tf32) recorder = std::make_unique<Tf32Recorder>(device, std::move(recorder));
  return make_recorded(setup, std::move(recorder));
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
     .params = {{"graph", "off", "on: a step is recorded as a CUDA graph and replayed as a whole"},
                {"tf32", "off", "let it multiply float32 with TF32's 10 bits"}},
     .make = make_gpu,
     .promise = [](StrategyInfo& info, const Params& params) { info.same_graph = info.recorded = params.flag("graph"); },
     .variants = {{"graph", {{"graph", "on"}}}}}};

}  // namespace
}  // namespace dpbench
