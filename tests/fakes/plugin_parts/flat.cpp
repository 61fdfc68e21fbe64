// Registers a strategy "own-flat", built from strategies/parts, which reduces all gradients of a dtype in one buffer.
#include <ATen/ATen.h>

#include "strategies/api/parts/broadcast.h"
#include "strategies/api/parts/flat.h"
#include "strategies/api/parts/same_model.h"
#include "strategies/api/parts/trained.h"

namespace {

using namespace dpbench;

class OwnFlat : public BuiltInStrategy {
 public:
  explicit OwnFlat(const Setup& setup)
      : BuiltInStrategy(setup),
        group_(setup.mesh.group()),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        gradients_(replica_.trainable_tensors("own-flat")) {
    require_same_model(*group_, replica_);
    broadcast_from(0, group_, replica_.detached());
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const auto buffers = replica_.buffer_list();
    if (!buffers.empty()) broadcast_from(0, group_, buffers);
    const StepResult result = passes(step, micro, phases);
    phases.enter(Phase::communication);
    for (size_t i = 0; i < trainable().size(); ++i) gradients_.views()[i].copy_(trainable()[i].grad());
    for (const at::Tensor& buffer : gradients_.buffers()) {
      std::vector<at::Tensor> sum = {buffer};
      group_->allreduce(sum)->wait();
      sum[0].div_(group_->getSize());
    }
    for (size_t i = 0; i < trainable().size(); ++i) trainable()[i].mutable_grad() = gradients_.views()[i];
    apply_gradients(step, phases);
    return result;
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  Replica replica_;
  Flat gradients_;
};

const RegisterStrategy flat{{.name = "own-flat", .summary = "one buffer per dtype", .make = make<OwnFlat>}};

}  // namespace
