// The smallest data-parallel strategy: forward and backward pass, an allreduce of each gradient, an optimizer step.
// "plain-average" divides by the number of ranks, as both strategies promise; "plain-sum" does not.
#include <ATen/ATen.h>

#include "strategies/api/trained.h"

namespace {

using namespace dpbench;

template <bool divide>
class Plain : public TrainedStrategy {
 public:
  explicit Plain(const Setup& setup) : TrainedStrategy(setup), group_(setup.group) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const StepResult result = passes(step, micro, phases);
    phases.enter(Phase::communication);
    for (const at::Tensor& parameter : trainable()) {
      if (!parameter.grad().defined()) continue;
      std::vector<at::Tensor> gradient = {parameter.grad()};
      group_->allreduce(gradient)->wait();
      if (divide) gradient[0].div_(group_->getSize());
    }
    apply_gradients(phases);
    return result;
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// Buffers::local declares that each rank keeps its own BatchNorm statistics.
const RegisterStrategy right{{.name = "plain-average",
                              .summary = "an allreduce for each gradient",
                              .buffers = Buffers::local,
                              .make = make<Plain<true>>}};
const RegisterStrategy wrong{
    {.name = "plain-sum", .summary = "forgets to divide", .buffers = Buffers::local, .make = make<Plain<false>>}};

}  // namespace
