// "odd" is a correct data-parallel strategy of unusual construction, chosen by --param odd.how=... Its results differ
// from other strategies' by rounding, which no audit may report as a mistake. With how=float32-only it refuses float64.
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/scenario/altered_workload.h"
#include "strategies/api/trained.h"

namespace dpbench {
namespace {

constexpr char own_optimizer[] = "own-optimizer", float64_copy[] = "float64-copy",
               divided_loss[] = "loss-divided-by-the-world", each_reduced[] = "each-micro-batch-reduced",
               ends_in_a_thread[] = "step-ends-in-a-thread", float32_only[] = "float32-only";

Setup with_workload(const Setup& setup, const Workload& workload) {
  return {.workload = workload,
          .devices = setup.devices,
          .mesh = setup.mesh,
          .init_seed = setup.init_seed,
          .step_seed = setup.step_seed,
          .dtype = setup.dtype,
          .params = setup.params,
          .accumulate = setup.accumulate,
          .clip_norm = setup.clip_norm,
          .allows_idle = setup.allows_idle};
}

// A base class of Odd, because the workload must exist before TrainedStrategy, which keeps a reference to it.
struct WithScaledLoss {
  AlteredWorkload scaled;
};

class Odd : private WithScaledLoss, public TrainedStrategy {
 public:
  explicit Odd(const Setup& setup)
      : WithScaledLoss{{setup.workload, setup.params.text("how") == divided_loss ? 1.0 / ranks_of(setup) : 1.0}},
        TrainedStrategy(with_workload(setup, scaled)),
        how_(setup.params.text("how")),
        group_(setup.mesh.group()),
        optimizer_(setup.workload.optimizer()) {
    if (setup.clip_norm) throw UsageError("odd does not clip");
    if (how_ == float32_only && setup.dtype == at::kDouble) throw UsageError("needs float32");
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    join();
    if (how_ == ends_in_a_thread) {
      const StepResult result = passes(step, micro, phases);
      end_ = std::async(std::launch::async, [this, step] {
        Phases untimed;
        average();
        apply_gradients(step, untimed);
      });
      return result;
    }
    const auto reduced = how_ == each_reduced ? &Odd::reduced_one_by_one : &Odd::reduced_once;
    StepResult result = (this->*reduced)(step, micro, phases);
    if (how_ == own_optimizer)
      update(step);
    else if (how_ == float64_copy)
      update_copies(step);
    else
      apply_gradients(step, phases);
    return result;
  }

  // The accessors wait for the end of the step.
  at::Tensor forward(const Batch& mine) override { return join(), TrainedStrategy::forward(mine); }
  void load(const Snapshot& snapshot) override { join(), TrainedStrategy::load(snapshot); }
  void finish() override { join(), TrainedStrategy::finish(); }
  NamedTensors parameters() override { return join(), TrainedStrategy::parameters(); }
  NamedTensors gradients() override { return join(), TrainedStrategy::gradients(); }
  NamedTensors buffers() override { return join(), TrainedStrategy::buffers(); }
  NamedTensors state() override { return join(), TrainedStrategy::state(); }

 private:
  static double ranks_of(const Setup& setup) { return setup.mesh.group()->getSize(); }

  StepResult reduced_once(int64_t step, std::span<const Batch> micro, Phases& phases) {
    StepResult result = passes(step, micro, phases);
    phases.enter(Phase::communication);
    average();
    // The step reports the loss that was not divided.
    if (how_ == divided_loss) result.loss = result.loss.detach() * group_->getSize();
    return result;
  }

  // Averages the gradients of each micro-batch over the ranks, and adds these means.
  StepResult reduced_one_by_one(int64_t step, std::span<const Batch> micro, Phases& phases) {
    const auto micros = static_cast<double>(micro.size());
    std::vector<at::Tensor> sums(trainable().size());
    StepResult result;
    for (size_t m = 0; m < micro.size(); ++m) {
      const StepResult one = passes(step, micro.subspan(m, 1), phases);
      add_micro(result, one.output, one.loss.detach() / micros);
      phases.enter(Phase::communication);
      for (size_t i = 0; i < sums.size(); ++i) {
        at::Tensor gradient = trainable()[i].grad();
        if (!gradient.defined()) continue;
        gradient = gradient / (micros * group_->getSize());
        sum(gradient);
        sums[i] = sums[i].defined() ? sums[i] + gradient : gradient;
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) trainable()[i].mutable_grad() = sums[i];
    return result;
  }

  void average() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : trainable()) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      sum(gradient);
      if (how_ != divided_loss) gradient.div_(group_->getSize());
    }
  }

  void join() {
    if (end_.valid()) end_.get();
  }

  void sum(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors = {tensor};
    group_->allreduce(tensors)->wait();
  }

  // Steps SGD without momentum or Adam by tensor operations, in another order than torch's kernels.
  void update(int64_t step) {
    const at::NoGradGuard no_grad;
    const double rate = learning_rate(optimizer_, step);
    const NamedTensors gradients = TrainedStrategy::gradients(), state = TrainedStrategy::state();
    for (const auto& [name, parameter] : TrainedStrategy::parameters()) {
      const at::Tensor* gradient = find(gradients, name);
      if (!gradient || !gradient->defined()) continue;
      if (optimizer_.kind == OptimizerSpec::Kind::sgd) {
        parameter.sub_(*gradient * rate);
        continue;
      }
      const auto slot = [&, &of = name](Slot which) { return *find(state, state_name(of, which)); };
      const at::Tensor momentum = slot(Slot::momentum), variance = slot(Slot::variance);
      const double count = slot(Slot::step).add_(1).item<double>();
      momentum.mul_(optimizer_.beta1).add_(*gradient * (1 - optimizer_.beta1));
      variance.mul_(optimizer_.beta2).add_(gradient->square() * (1 - optimizer_.beta2));
      const at::Tensor mean = momentum / (1 - std::pow(optimizer_.beta1, count)),
                       square = variance / (1 - std::pow(optimizer_.beta2, count)),
                       decay = parameter * weight_decay(optimizer_, parameter.dim());
      parameter.sub_((mean / (square.sqrt() + optimizer_.epsilon) + decay) * rate);
    }
  }

  // Steps SGD without momentum on float64 copies of the parameters, and rounds the copies to the parameters' dtype.
  void update_copies(int64_t step) {
    const at::NoGradGuard no_grad;
    const NamedTensors gradients = TrainedStrategy::gradients();
    for (const auto& [name, parameter] : TrainedStrategy::parameters()) {
      const at::Tensor* gradient = find(gradients, name);
      if (!gradient || !gradient->defined()) continue;
      at::Tensor& copy = copies_[name];
      const bool current = copy.defined() && copy.to(parameter.scalar_type()).equal(parameter);
      if (!current) copy = parameter.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
      copy.sub_(gradient->to(at::kDouble) * learning_rate(optimizer_, step));
      parameter.copy_(copy);
    }
  }

  std::string how_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  OptimizerSpec optimizer_;
  std::map<std::string, at::Tensor> copies_;
  std::future<void> end_;  // the end of the step, in a thread of its own
};

const RegisterStrategy odd{
    {.name = "odd",
     .summary = "averages gradients in an unusual way",
     .buffers = Buffers::local,
     .params = {{"how", own_optimizer, "unusual part",
                 std::string(own_optimizer) + "|" + float64_copy + "|" + divided_loss + "|" + each_reduced + "|" +
                     ends_in_a_thread + "|" + float32_only}},
     .make = [](const Setup& setup) { return std::make_unique<Odd>(setup); },
     .promise = [](StrategyInfo& info,
                   const Params& params) { info.reduces_each_micro_batch = params.text("how") == each_reduced; }}};

}  // namespace
}  // namespace dpbench
