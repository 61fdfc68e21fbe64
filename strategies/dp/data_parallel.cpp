// The strategy "dp": one process with one replica per device. Replicas, their threads and flat buffers persist between
// steps. On the CPU all replicas share the first replica's parameters after the first step, unless the model writes to
// them or dp.link=plain.
#include "strategies/dp/data_parallel.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"
#include "strategies/api/parts/trained.h"
#include "strategies/dp/links.h"
#include "strategies/dp/pieces.h"
#include "strategies/graphs/recorded_steps.h"
#include "strategies/parts/pass.h"
#include "strategies/parts/tf32.h"

namespace dpbench {
namespace {

// Decrements a counter at the end of the scope, even if an exception is thrown. Does nothing if the counter is null.
struct CountDown {
  std::atomic<int>* left;
  ~CountDown() {
    if (left) left->fetch_sub(1, std::memory_order_release);
  }
};

class DataParallel : public BuiltInStrategy {
 public:
  DataParallel(const Setup& setup, const dp::MakeRecorder& recorder)
      : BuiltInStrategy(setup),
        tf32_(setup.params.flag("tf32"), setup.devices.at(0), "dp"),
        threads_(static_cast<int>(setup.devices.size())),
        link_(dp::link_between(setup.devices, chosen<bool>(setup.params, "link", {{"auto", false}, {"plain", true}}))) {
    if (recorder) recorders_.emplace(setup.devices, recorder, threads_);
    for (const at::Device& device : setup.devices) {
      Replica& replica = replicas_.emplace_back(std::make_unique<dp::FlatReplica>(setup, device))->replica;
      replica.use_onednn(setup.params.flag("onednn"), "dp");
      if (recorders_) require_recordable(*replica.shared_model(), "dp");
      passes_.push_back(recorders_ ? recorders_->pass_of(replica) : dp::plain_pass(replica));
    }
    watches_first_step_ = !link_ && !recorder && main().device().is_cpu();
    train(main());
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    StepResult result;
    int max_active = 1;
    const uint64_t before = watches_first_step_ ? replicas_[0]->parameters_hash() : 0;
    for (size_t k = 0; k < micro.size(); ++k)
      max_active = std::max(max_active, run(result, step, micro[k], micro.size(), k == 0, phases));
    if (std::exchange(watches_first_step_, false)) share_parameters(before);
    for (const auto& one : replicas_) one->require_unwritten();
    phases.enter(Phase::communication);
    dp::sum_gradients(replicas_, threads_, link_, max_active);
    // The optimizer runs on several threads only if each replica has a CPU core of its own.
    apply_gradients(step, phases, threads_.spins() > 0 ? max_active : 1,
                    [&](const auto& share) { threads_.run(max_active, share); });
    return result;
  }

  KeptTensors kept_tensors() override {
    KeptTensors kept{.state = state()};
    const auto add = [](NamedTensors& to, const NamedTensors& more) { to.insert(to.end(), more.begin(), more.end()); };
    for (const auto& one : replicas_) {
      add(kept.parameters, one->replica.parameters());
      add(kept.buffers, one->replica.buffers());
      add(kept.gradients, one->replica.gradients());
    }
    return kept;
  }

 private:
  const Replica& main() const { return replicas_[0]->replica; }

  // On the CPU, makes all replicas use the first replica's parameters, unless the model wrote to its parameters in this
  // step. before: hash of the parameters before the step; another hash shows a write.
  void share_parameters(uint64_t before) {
    for (size_t i = 0; i < replicas_.size(); ++i) replicas_[i]->restore_views(/*with_values=*/i == 0);
    // A write may bypass autograd's version counters, so hashes are compared as well.
    model_writes_ = model_writes_ || std::any_of(replicas_.begin(), replicas_.end(),
                                                 [&](const auto& one) { return one->parameters_hash() != before; });
    if (model_writes_) return;
    for (size_t i = 1; i < replicas_.size(); ++i) replicas_[i]->share_parameters_of(*replicas_[0]);
  }

  // Runs the forward and backward pass of one micro-batch on all replicas. Returns the number of replicas that had
  // samples.
  int run(StepResult& result, int64_t step, const Batch& batch, size_t micros, bool first, Phases& phases) {
    phases.enter(Phase::scatter);
    if (replicas_[0]->restore_views(/*with_values=*/true)) model_writes_ = true;
    const bool resend = !first && model_writes();
    dp::Pieces pieces(workload_, batch, static_cast<int64_t>(replicas_.size()));
    if (link_) dp::broadcast_state(*link_, replicas_, first || resend);
    phases.enter(Phase::forward);
    const auto outputs = forward_pieces(pieces, step, micros, first, resend, phases);
    phases.enter(Phase::backward);
    backward_pieces(loss_slopes(result, outputs, pieces.target(), micros), /*only_pass=*/micros == 1);
    return static_cast<int>(outputs.size());
  }

  // Runs the forward pass of each replica on its piece of the batch and returns the outputs. If no link (NCCL or plain
  // copies) has broadcast replica 0's state before, each replica first copies the state that it lacks from replica 0.
  std::vector<at::Tensor> forward_pieces(dp::Pieces& pieces, int64_t step, size_t micros, bool first, bool resend,
                                         Phases& phases) {
    const int active = static_cast<int>(pieces.count());
    std::vector<at::Tensor> outputs(pieces.count());
    const auto now = [on = phases.on()] { return on ? Phases::Clock::now() : Phases::Clock::time_point{}; };
    std::atomic<int> copying = link_ ? 0 : active - 1;
    threads_.run(static_cast<int>(replicas_.size()), [&](int i) {
      const auto index = static_cast<size_t>(i);
      dp::FlatReplica& mine = *replicas_[index];
      {
        const bool copies = i > 0 && i < active && !link_;
        // Decrements `copying`, the number of replicas that still copy, even after an exception, because replica 0
        // waits until it is 0.
        const CountDown at_end{copies ? &copying : nullptr};
        if (first) mine.begin_step(/*several=*/micros > 1);
        if (i >= active) return;
        mine.begun = now();
        if (i > 0) mine.restore_views(/*with_values=*/false);
        if (copies) mine.copy_from(*replicas_[0], resend);
      }
      mine.copied = now();
      passes_[index]->load(step, pieces.take(index), first);
      mine.loaded = now();
      while (i == 0 && copying.load(std::memory_order_acquire) > 0)
        // Waits until the other replicas have copied replica 0's state, because replica 0's own forward pass may write
        // to it.
        std::this_thread::yield();
      if (!passes_[index]->runs_alone()) outputs[index] = passes_[index]->forward();
      mine.done = now();
    });
    charge_slowest(active, phases);
    dp::run_lone_passes(passes_, active, threads_, [&](size_t i) { outputs[i] = passes_[i]->forward(); });
    return outputs;
  }

  // slopes: for each piece of the batch, the gradient of the loss with respect to the output of the piece.
  void backward_pieces(const std::vector<at::Tensor>& slopes, bool only_pass) {
    const int active = static_cast<int>(slopes.size());
    const auto backward = [&](size_t i) { passes_[i]->backward(slopes[i], only_pass); };
    threads_.run(active, [&](int i) {
      if (const auto index = static_cast<size_t>(i); !passes_[index]->runs_alone()) backward(index);
    });
    dp::run_lone_passes(passes_, active, threads_, backward);
  }

  // Returns true if any forward pass so far, in this or an earlier step, wrote to parameters. If so, the other replicas
  // get replica 0's parameters before every pass, otherwise once per step.
  bool model_writes() {
    for (const auto& one : replicas_) model_writes_ = model_writes_ || one->parameters_written();
    return model_writes_;
  }

  // Charges the phases of the pass with the times of the slowest replica. Replicas copy parameters and load samples in
  // parallel, so their times cannot be added.
  void charge_slowest(int active, Phases& phases) const {
    // On a GPU the times are unknown: the host only starts the copies and its clock does not show how long they take.
    if (!phases.on() || !main().device().is_cpu()) return;
    const auto later = [](const auto& a, const auto& b) { return a->done < b->done; };
    const auto& last = *std::max_element(replicas_.begin(), replicas_.begin() + active, later);
    phases.move(Phase::scatter, last->begun, last->copied);
    phases.move(Phase::data, last->copied, last->loaded);
  }

  // Computes one loss on the concatenated outputs of all replicas. Returns its gradient with respect to each replica's
  // output.
  std::vector<at::Tensor> loss_slopes(StepResult& result, const std::vector<at::Tensor>& outputs,
                                      const at::Tensor& target, size_t micros) {
    std::vector<at::Tensor> gathered;
    std::vector<int64_t> rows;
    for (const at::Tensor& output : outputs) {
      gathered.push_back(output.to(main().device()));
      rows.push_back(output.size(0));
    }
    at::Tensor output = at::cat(gathered).requires_grad_();
    at::Tensor loss = loss_of(output, main().to_device({{}, target, {}}).target, micros);
    dpbench::backward(loss);
    const at::Tensor slopes = output.grad();
    add_micro(result, std::move(output), std::move(loss));
    return slopes.split_with_sizes(rows);
  }

  Tf32 tf32_;
  // The recorders of CUDA graphs are declared before all members made on their CUDA streams.
  std::optional<dp::PassRecorders> recorders_;
  dp::Replicas replicas_;
  dp::Passes passes_;
  ReplicaThreads threads_;
  const ReplicaLink* link_;
  // True if the next step must check whether the model writes to its parameters. Only used on the CPU, where replicas
  // can share parameters.
  bool watches_first_step_ = false;
  bool model_writes_ = false;  // true once the model has written to its parameters
};

std::unique_ptr<Strategy> plain_or_recorded(const Setup& setup) {
  if (!setup.params.flag("graph")) return dp::make_data_parallel(setup, {});
  if (!setup.devices.at(0).is_cuda())
    throw UsageError("dp.graph=on needs GPUs: a CPU has no graphs. Use dp.graph=off.");
  if (!step_recorder()) throw UsageError("dp.graph=on needs the CUDA library, which is not loaded. Use dp.graph=off.");
  return dp::make_data_parallel(setup, step_recorder());
}

void promise_of_dp(StrategyInfo& info, const Params& params) {
  info.same_graph = info.recorded = params.flag("graph");
  if (info.recorded) info.cpu = false;
  promise_onednn(info, params);
}

const RegisterStrategy dp_strategy{
    {.name = "dp",
     .summary = "DataParallel: one process, one replica per device, one loss on the gathered output",
     .parallelism = Parallelism::replicas,
     .gradient = Gradient::gathered,
     .buffers = Buffers::first_replica,
     .loads_samples = true,
     .params = {{"link", "auto",
                 "auto: if each replica has its own GPU, NCCL moves all state as one buffer and all gradients as "
                 "another, else each replica copies and adds its part; plain: the same two buffers, by copies and sums "
                 "on any device",
                 "auto|plain"},
                {"graph", "off",
                 "on: record each replica's forward pass and backward pass as CUDA graphs and replay them"},
                {"tf32", "off", "on: allow TF32 (10-bit mantissa) in float32 products on a GPU"},
                onednn_param()},
     .settings = {.unrecorded = {{"graph", "off"}}},
     .make = plain_or_recorded,
     .promise = promise_of_dp,
     .variants = {{"plain_link", {{"link", "plain"}}}, {"graph", {{"graph", "on"}}}, onednn_variant()}}};

}  // namespace

std::unique_ptr<Strategy> dp::make_data_parallel(const Setup& setup, const MakeRecorder& recorder) {
  return std::make_unique<DataParallel>(setup, recorder);
}

}  // namespace dpbench
