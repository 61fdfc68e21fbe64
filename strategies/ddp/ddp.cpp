// The strategy "ddp": DistributedDataParallel in C++ on c10d::Reducer, one process per rank.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"
#include "strategies/api/parts/broadcast.h"
#include "strategies/api/parts/same_model.h"
#include "strategies/api/parts/trained.h"
#include "strategies/ddp/loss_terms.h"
#include "strategies/ddp/options.h"
#include "strategies/ddp/reduction.h"
#include "strategies/graphs/recorded_steps.h"
#include "strategies/parts/sync_batch_norm.h"
#include "strategies/parts/tf32.h"

namespace dpbench {
namespace {

// Returns the recorder of CUDA graphs that ddp.graph needs; null if ddp.graph is off. Recording may start only after
// the Reducer has rebuilt its buckets and reduced them once. The first step (for a static graph the second) shows in
// which order gradients become ready, and the step after it uses rebuilt buckets.
std::unique_ptr<RecordedSteps> recorded_steps(const Setup& setup, const ddp::Options& options) {
  check(setup.mesh.group() != nullptr, "ddp needs a process group, even in a world of 1");
  if (!options.graph) return nullptr;
  return std::make_unique<RecordedSteps>(recorder_for(setup, "ddp.graph=on"), setup, options.static_graph ? 3 : 2);
}

// The trainable parameters. `shared` ones are reduced and equal on all ranks. `own` ones, listed in ddp.ignore, are
// local to each rank.
struct Ownership {
  std::vector<Parameter> shared, own;

  Ownership(const Replica& replica, const ddp::Options& options, const Setup& setup) {
    if (replica.trainable().empty()) throw std::runtime_error("ddp: no parameter of this model requires a gradient");
    if (setup.clip_norm && !options.ignored.empty())
      throw UsageError("ddp.ignore=" + setup.params.text("ignore") +
                       " and --clip-norm cannot be combined: each rank would compute a different norm");
    ddp::require_ignorable(*replica.shared_model(), setup.params);
    for (const Parameter& parameter : replica.trainable())
      (std::ranges::count(options.ignored, parameter.name) > 0 ? own : shared).push_back(parameter);
  }

  bool is_own(const at::Tensor& tensor) const {
    return std::any_of(own.begin(), own.end(), [&](const Parameter& mine) { return mine.tensor.is_same(tensor); });
  }
};

class Ddp : public BuiltInStrategy {
 public:
  explicit Ddp(const Setup& setup)
      : BuiltInStrategy(setup),
        options_(ddp::options_of(setup.params)),
        tf32_(options_.tf32, setup.devices.at(0), "ddp"),
        group_(setup.mesh.group()),
        recorded_(recorded_steps(setup, options_)),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        ownership_(replica_, options_, setup),
        buffers_(replica_.buffer_list()),
        terms_(options_, *group_, workload_) {
    replica_.use_onednn(options_.onednn, "ddp");
    if (setup.clip_norm && options_.step_in_backward)
      throw UsageError(
          "ddp.step_in_backward=on and --clip-norm cannot be combined: the gradient norm is known only after the last "
          "gradient is reduced");
    require_same_model(*group_, replica_);
    reduction_.emplace(group_, ownership_.shared, options_, [this](const auto& parameters, const auto& gradients) {
      apply_gradients(step_, parameters, gradients);
    });
    broadcast_from(0, group_, initial_broadcast());
    if (options_.sync_batch_norm) synchronise_batch_norm(*replica_.shared_model(), group_, "ddp.sync_batch_norm=on");
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty() && !options_.join)
      throw std::runtime_error("ddp: this rank has no samples in step " + std::to_string(step) +
                               ". Use --param ddp.join=on.");
    if (recorded_)
      return recorded_->step(
          step, micro, replica_, phases,
          [this](std::span<const Batch> rows, Phases& parts) { return run_passes(/*step=*/0, rows, parts); },
          [this](int64_t number, Phases& parts) { optimize(number, parts); });
    if (options_.join || options_.global_mean) {
      phases.enter(Phase::communication);
      terms_.count(micro, replica_.device());
      if (terms_.none()) return {};
    }
    const StepResult result = run_passes(step, micro, phases);
    optimize(step, phases);
    return result;
  }

  // Returns the metrics that the Reducer measures. There are none with ddp.graph, because the Reducer does not take
  // part in replays of a recorded step.
  std::map<std::string, std::vector<double>> figures() override {
    if (recorded_) return {};
    return reduction_->figures();
  }

  // With ddp.join, a rank without samples keeps reducing with the other ranks until none has samples left.
  void finish() override {
    if (!options_.join) return;
    Phases untimed;
    do step(step_ + 1, {}, untimed);
    while (!terms_.none());
  }

 private:
  std::vector<at::Tensor> initial_broadcast() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : replica_.parameters())
      if (!ownership_.is_own(tensor)) all.push_back(tensor.detach());
    for (const at::Tensor& buffer : buffers_) all.push_back(buffer);
    return all;
  }

  void step_own_parameters(Phases& phases) {
    phases.enter(Phase::optimizer);
    std::vector<at::Tensor> parameters, gradients;
    for (const auto& [name, tensor] : ownership_.own)
      if (tensor.grad().defined()) parameters.push_back(tensor), gradients.push_back(tensor.grad());
    apply_gradients(step_, parameters, gradients);
  }

  StepResult run_passes(int64_t step, std::span<const Batch> micro, Phases& phases) {
    step_ = step;
    StepResult result;
    // Gradients are made undefined, not zero. The Reducer divides a new gradient while it copies it into the bucket. A
    // gradient that already lies in the bucket would need a separate pass for the division.
    replica_.clear_gradients();
    if (micro.empty()) reduce_without_rows(phases);
    for (size_t k = 0; k < micro.size(); ++k) {
      // Only the pass of the last micro-batch is reduced. With a static graph, the first two passes are reduced too.
      const bool last = k + 1 == micro.size();
      accumulate(result, step, micro[k], micro.size(), last, phases);
    }
    return result;
  }

  void optimize(int64_t step, Phases& phases) {
    if (!options_.step_in_backward)
      apply_gradients(step, phases);
    else
      step_own_parameters(phases);
  }

  void accumulate(StepResult& result, int64_t step, const Batch& batch, size_t micros, bool last, Phases& phases) {
    phases.enter(Phase::data);
    const Batch mine = replica_.to_device(batch);
    phases.enter(Phase::communication);
    reduction_->before_forward(last);
    broadcast_buffers(last);
    phases.enter(Phase::forward);
    at::Tensor output = replica_.forward(step, mine);
    at::Tensor loss = loss_of(output, mine.target, micros);
    phases.enter(Phase::backward);
    reduction_->before_backward(output);
    const double weight = terms_.weight(batch, micros);
    backward_with_callbacks(weight == 1 ? loss : loss * weight);
    reduction_->after_backward();
    if (last) reduction_->charge_waiting(phases, replica_.device());
    add_micro(result, std::move(output), std::move(loss));
  }

  void reduce_without_rows(Phases& phases) {
    phases.enter(Phase::communication);
    reduction_->without_rows_forward();
    broadcast_buffers(/*last=*/true);
    reduction_->without_rows_backward();
  }

  // Broadcasts the model's buffers from rank 0 (with ddp.join, from the first rank with samples) before the first
  // forward pass of each step, as torch's DDP does.
  void broadcast_buffers(bool last) {
    const bool due = buffers_due_;
    buffers_due_ = last;
    if (!due || !options_.broadcast_buffers || buffers_.empty()) return;
    broadcast_from(terms_.first_active(), group_, buffers_);
  }

  ddp::Options options_;
  Tf32 tf32_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  // Members that must outlive the recorder of CUDA graphs are declared before it, and those made on its CUDA stream
  // after it. The process group comes before it, because NCCL cannot shut down while a CUDA graph holds its
  // collectives.
  std::unique_ptr<RecordedSteps> recorded_;
  Replica replica_;
  Ownership ownership_;
  int64_t step_ = -1;  // number of the current step; 0 in a recorded step
  bool buffers_due_ = true;
  std::vector<at::Tensor> buffers_;
  // Loss terms (usually one per sample) of each rank; counted only with ddp.join or ddp.global_mean.
  ddp::LossTerms terms_;
  std::optional<ddp::Reduction> reduction_;
};

const RegisterStrategy ddp_strategy{
    {.name = "ddp",
     .summary = "DistributedDataParallel: one process per rank, gradients averaged in buckets during backward",
     .parallelism = Parallelism::ranks,
     .gradient = Gradient::mean_of_means,
     .buffers = Buffers::rank0,
     .params = ddp::parameters(),
     .settings = ddp::settings(),
     .make = make<Ddp>,
     .traffic = ddp::traffic,
     .promise = ddp::promise,
     .require_suitable = [](const Model& model, const MeshShape&,
                            const Params& params) { ddp::require_ignorable(model, params); },
     .variants = ddp::variants()}};

}  // namespace
}  // namespace dpbench
