// "cpu" and "gpu": one device, the whole batch. The baselines that everything else is held against.
#include <ATen/ATen.h>

#include "strategies/replica.h"

namespace dpbench {
namespace {

class Single : public Strategy {
 public:
  explicit Single(const Setup& setup)
      : workload_(setup.workload),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        optimizer_(setup.workload.optimizer(), replica_.trainable()),
        clip_norm_(setup.clip_norm) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    replica_.clear_gradients();
    StepResult result;
    for (const Batch& batch : micro) {
      phases.enter(Phase::data);
      const Batch mine = replica_.to_device(batch);
      phases.enter(Phase::forward);
      const at::Tensor output = replica_.forward(step, mine);
      at::Tensor loss = workload_.loss(output, mine.target);
      if (micro.size() > 1) loss = loss / static_cast<double>(micro.size());
      phases.enter(Phase::backward);
      loss.backward();
      add_micro(result, output, loss);
    }
    phases.enter(Phase::optimizer);
    if (clip_norm_) clip_gradients(replica_.trainable(), *clip_norm_);
    optimizer_.step();
    return result;
  }

  at::Tensor forward(const Batch& mine) override { return replica_.evaluate(mine); }
  NamedTensors parameters() override { return replica_.parameters(); }
  NamedTensors gradients() override { return replica_.gradients(); }
  NamedTensors buffers() override { return replica_.buffers(); }
  NamedTensors state() override { return optimizer_.state(); }

 private:
  const Workload& workload_;
  Replica replica_;
  Optimizer optimizer_;
  std::optional<double> clip_norm_;
};

const RegisterStrategy cpu{{.name = "cpu",
                            .summary = "one CPU device: the baseline",
                            .parallelism = Parallelism::single,
                            .gradient = Gradient::gathered,
                            .buffers = Buffers::first_replica,
                            .cuda = false,
                            .make = make<Single>}};
const RegisterStrategy gpu{{.name = "gpu",
                            .summary = "one GPU: the baseline",
                            .parallelism = Parallelism::single,
                            .gradient = Gradient::gathered,
                            .buffers = Buffers::first_replica,
                            .cpu = false,
                            .make = make<Single>}};

}  // namespace
}  // namespace dpbench
