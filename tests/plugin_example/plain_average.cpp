// The smallest complete data-parallel strategy: forward and backward pass, an allreduce of each gradient, an optimizer
// step. "plain-average" divides by the number of ranks, as both strategies promise; "plain-sum" does not.
#include <ATen/ATen.h>

#include "strategies/api/trained.h"

namespace {

using namespace dpbench;

template <bool divide>
class Plain : public TrainedStrategy {
 public:
  explicit Plain(const Setup& setup)
      : TrainedStrategy(setup), group_(setup.mesh.group()), device_(setup.devices.at(0)) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    StepResult result;
    if (micro.empty())  // this rank has run out of samples, but other ranks have some, so this rank adds zeros
      for (const at::Tensor& parameter : trainable()) parameter.mutable_grad().reset();
    else
      result = passes(step, micro, phases);
    phases.enter(Phase::communication);
    const at::Tensor users = ranks_using_each();
    for (size_t i = 0; i < trainable().size(); ++i)
      if (users[static_cast<int64_t>(i)].item<int64_t>() > 0) average(trainable()[i]);
    apply_gradients(step, phases);
    return result;
  }

 private:
  // Returns the number of ranks that used each parameter. A branch of the model may be used by some ranks only; the
  // gradient of a parameter that no rank used stays undefined, and the optimizer skips it.
  at::Tensor ranks_using_each() {
    at::Tensor users = at::zeros({static_cast<int64_t>(trainable().size())}, at::kLong);
    for (size_t i = 0; i < trainable().size(); ++i)
      users[static_cast<int64_t>(i)] = trainable()[i].grad().defined() ? 1 : 0;
    std::vector<at::Tensor> all = {users.to(device_)};
    group_->allreduce(all)->wait();
    return all[0].cpu();
  }

  void average(const at::Tensor& parameter) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    std::vector<at::Tensor> gradient = {parameter.grad()};
    group_->allreduce(gradient)->wait();
    if (divide) gradient[0].div_(group_->getSize());
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
};

template <bool divide>
StrategyInfo promises(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .gradient = Gradient::mean_of_means,
          .buffers = Buffers::local,  // each rank keeps its own BatchNorm statistics
          .make = make<Plain<divide>>,
          .allows_unused = true,
          .allows_no_samples = true};
}

const RegisterStrategy right{promises<true>("plain-average", "an allreduce for each gradient")};
const RegisterStrategy wrong{promises<false>("plain-sum", "forgets to divide")};

}  // namespace
