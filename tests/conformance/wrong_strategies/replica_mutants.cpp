// A plain, correct data-parallel strategy in one process (like dp), and its wrong variants.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "harness/conform/scenario/scenario.h"
#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

struct Replicas;

struct ReplicaParts {
  std::function<std::vector<int64_t>(int64_t rows, int replicas)> cut = chunk_sizes;
  int64_t refreshed_steps = 1000;  // number of the first steps in which the replicas copy replica 0's state
  bool zero_replicas = true;       // if true, the replicas' gradients are zeroed before a step
  bool zero_idle_replicas = true;  // if true, the gradients of replicas without samples are zeroed too
  bool one_loss = true;            // true: one loss on the gathered output; false: the mean of the replicas' losses
  bool gather_backwards = false;
  std::function<void(Replicas&)> reduce;  // adds the gradients of replicas 1, 2, .. to replica 0's
  std::function<void(Replicas&)> keep_buffers = [](Replicas&) {};
};

struct Replicas {
  std::vector<std::shared_ptr<Model>> models;
  std::vector<at::Tensor> leaves(size_t replica) const {
    std::vector<at::Tensor> result;
    for (const auto& item : models[replica]->named_parameters()) result.push_back(item.value());
    return result;
  }
};

void add_all(Replicas& replicas) {
  const auto into = replicas.leaves(0);
  for (size_t r = 1; r < replicas.models.size(); ++r) {
    const auto from = replicas.leaves(r);
    for (size_t i = 0; i < into.size(); ++i)
      if (from[i].grad().defined()) into[i].mutable_grad().add_(from[i].grad());
  }
}

class ReplicaReference : public Strategy {
 public:
  ReplicaReference(const Setup& setup, ReplicaParts parts)
      : workload_(setup.workload),
        dtype_(setup.dtype),
        step_seed_(setup.step_seed),
        clip_(setup.clip_norm),
        parts_(parts) {
    for (size_t r = 0; r < setup.devices.size(); ++r) {
      replicas_.models.push_back(setup.workload.model(setup.init_seed));
      for (auto& item : replicas_.models[r]->named_parameters()) item.value().set_data(cast(item.value()));
      for (auto& item : replicas_.models[r]->named_buffers()) item.value().set_data(cast(item.value()));
    }
    if (workload_.optimizer().momentum == 0) return;
    for (const auto& leaf : replicas_.leaves(0)) momenta_.push_back(at::zeros_like(leaf));
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases&) override {
    const auto active = parts_.cut(micro[0].samples(), static_cast<int>(replicas_.models.size())).size();
    for (size_t r = 0; r < replicas_.models.size(); ++r)
      if (r == 0 || (parts_.zero_replicas && (r < active || parts_.zero_idle_replicas)))
        replicas_.models[r]->zero_grad();
    StepResult result;
    for (const auto& batch : micro) run_micro_batch(step, batch, static_cast<double>(micro.size()), result);
    const at::NoGradGuard no_grad;
    parts_.reduce(replicas_);
    parts_.keep_buffers(replicas_);
    clip();
    const OptimizerSpec spec = workload_.optimizer();
    std::vector<at::Tensor> parameters = replicas_.leaves(0), gradients;
    for (const auto& leaf : parameters) gradients.push_back(leaf.grad());
    at::_fused_sgd_(parameters, gradients, momenta_, 0, spec.momentum, learning_rate(spec, step), 0, false, false,
                    false);
    return result;
  }

  at::Tensor forward(const Batch& mine) override {
    const at::NoGradGuard no_grad;
    replicas_.models[0]->eval();
    const at::Tensor output = replicas_.models[0]->forward(cast(mine.input), {step_seed_, 0, mine.ids});
    replicas_.models[0]->train();
    return output;
  }
  NamedTensors parameters() override { return named(replicas_.models[0]->named_parameters()); }
  NamedTensors buffers() override { return named(replicas_.models[0]->named_buffers()); }
  NamedTensors gradients() override {
    NamedTensors result;
    for (const auto& item : replicas_.models[0]->named_parameters())
      result.emplace_back(item.key(), item.value().grad());
    return result;
  }
  NamedTensors state() override {
    NamedTensors result;
    for (size_t i = 0; i < momenta_.size(); ++i)
      result.emplace_back(parameters()[i].first + ".momentum_buffer", momenta_[i]);
    return result;
  }

 private:
  template <class Items>
  static NamedTensors named(const Items& items) {
    NamedTensors result;
    for (const auto& item : items) result.emplace_back(item.key(), item.value());
    return result;
  }

  at::Tensor cast(const at::Tensor& tensor) const {
    return tensor.is_floating_point() && dtype_ == at::kDouble ? tensor.to(at::kDouble) : tensor;
  }

  void refresh(size_t r) {
    const at::NoGradGuard no_grad;
    const auto copy = [](auto mine, const auto& first) {
      for (auto& item : mine) item.value().copy_(first[item.key()]);
    };
    copy(replicas_.models[r]->named_parameters(), replicas_.models[0]->named_parameters());
    copy(replicas_.models[r]->named_buffers(), replicas_.models[0]->named_buffers());
  }

  void run_micro_batch(int64_t step, const Batch& batch, double micros, StepResult& result) {
    const auto sizes = parts_.cut(batch.samples(), static_cast<int>(replicas_.models.size()));
    const auto inputs = cast(batch.input).split_with_sizes(sizes), ids = batch.ids.split_with_sizes(sizes),
               targets = cast(batch.target).split_with_sizes(sizes);
    std::vector<at::Tensor> outputs, losses;
    for (size_t r = 0; r < sizes.size(); ++r) {
      if (r > 0 && step < parts_.refreshed_steps) refresh(r);
      outputs.push_back(replicas_.models[r]->forward(inputs[r], {step_seed_, step, ids[r]}));
      losses.push_back(workload_.loss(outputs[r], targets[r]));
    }
    if (parts_.gather_backwards) std::reverse(outputs.begin(), outputs.end());
    const at::Tensor output = at::cat(outputs);
    const at::Tensor loss =
        (parts_.one_loss ? workload_.loss(output, cast(batch.target)) : at::stack(losses).mean()) / micros;
    loss.backward();
    add_micro(result, output, loss);
  }

  void clip() {
    if (!clip_) return;
    double squares = 0;
    for (const auto& leaf : replicas_.leaves(0)) squares += leaf.grad().to(at::kDouble).square().sum().item<double>();
    const double factor = std::min(1.0, *clip_ / (std::sqrt(squares) + 1e-6));
    for (const auto& leaf : replicas_.leaves(0)) leaf.mutable_grad().mul_(factor);
  }

  const Workload& workload_;
  std::vector<at::Tensor> momenta_;  // SGD's momentum buffers
  at::ScalarType dtype_;
  uint64_t step_seed_;
  std::optional<double> clip_;
  ReplicaParts parts_;
  Replicas replicas_;
};

std::function<StrategyInfo()> replicas(const std::function<void(ReplicaParts&)>& change) {
  return [=] {
    ReplicaParts parts;
    parts.reduce = add_all;
    change(parts);
    return StrategyInfo{.name = "replica-reference",
                        .summary = "plain replicas in one process",
                        .parallelism = Parallelism::replicas,
                        .gradient = Gradient::gathered,
                        .buffers = Buffers::first_replica,
                        .make = [parts](const Setup& setup) -> std::unique_ptr<Strategy> {
                          return std::make_unique<ReplicaReference>(setup, parts);
                        }};
  };
}

// A mistake: cuts a batch like NumPy's array_split, instead of torch.chunk, so sizes differ by at most one.
std::vector<int64_t> cut_evenly(int64_t rows, int replicas) {
  std::vector<int64_t> sizes;
  for (int r = 0; r < replicas; ++r)
    if (const int64_t size = rows / replicas + (r < rows % replicas); size > 0) sizes.push_back(size);
  return sizes;
}

std::vector<int64_t> cut_if_all_have_samples(int64_t rows, int replicas) {
  const auto sizes = chunk_sizes(rows, replicas);
  check(static_cast<int>(sizes.size()) == replicas, "no rows");
  return sizes;
}

// A mistake: throws if more than one replica gets no samples. The batch of 10 samples in the check chunk-tables reveals
// it: of 8 replicas, only 5 get samples.
std::vector<int64_t> cut_if_most_have_samples(int64_t rows, int replicas) {
  const auto sizes = chunk_sizes(rows, replicas);
  check(static_cast<int>(sizes.size()) >= replicas - 1, "no rows");
  return sizes;
}

// A correct dp strategy that rejects every optimizer except Adam.
StrategyInfo dp_for_adam_only() {
  StrategyInfo info = strategy_registry().at("dp");
  info.make = [right = info.make](const Setup& setup) {
    if (setup.workload.optimizer().kind != OptimizerSpec::Kind::adam) throw UsageError("only for Adam");
    return right(setup);
  };
  return info;
}

void buffers_of_the_last(Replicas& replicas) {
  const auto from = replicas.models.back()->named_buffers();
  for (auto& item : replicas.models[0]->named_buffers()) item.value().copy_(from[item.key()]);
}

}  // namespace

std::vector<Mutant> replica_mutants() {
  const std::string norm = "probe-batch-norm";
  return {
      {"replicas-gradients-lost", "gradient-meaning", "replica 0",
       replicas([](auto& p) { p.reduce = [](Replicas&) {}; })},
      {"replicas-averaged", "gradient-meaning", "averaged over 3", replicas([](auto& p) {
         p.reduce = [](Replicas& r) {
           add_all(r);
           for (const auto& leaf : r.leaves(0)) leaf.mutable_grad().div_(static_cast<double>(r.models.size()));
         };
       })},
      {"biases-of-replicas-lost", "gradient-meaning", "missing", replicas([](auto& p) {
         p.reduce = [](Replicas& r) {
           std::vector<at::Tensor> kept;
           for (const auto& leaf : r.leaves(0)) kept.push_back(leaf.grad().clone());
           for (const auto& leaf : r.leaves(2))
             if (leaf.dim() == 1 && leaf.grad().defined()) leaf.mutable_grad().zero_();
           add_all(r);
         };
       })},
      {"gathered-in-reverse", "chunk-tables", "order", replicas([](auto& p) { p.gather_backwards = true; })},
      {"cut-evenly", "chunk-tables", "chunk", replicas([](auto& p) { p.cut = cut_evenly; })},
      {"every-replica-must-have-rows", "run-completes", "no rows",
       replicas([](auto& p) { p.cut = cut_if_all_have_samples; })},
      {"every-replica-of-8-must-have-rows", "run-completes", "no rows",
       replicas([](auto& p) { p.cut = cut_if_most_have_samples; }), "probe-mlp-sgd", 8},
      {"one-loss-per-replica", "gradient-uneven", "each replica", replicas([](auto& p) { p.one_loss = false; })},
      {"one-loss-per-replica-llama", "gradient-meaning", "each replica", replicas([](auto& p) { p.one_loss = false; }),
       "probe-llama"},
      {"replicas-never-refreshed", "gradient-meaning", "forward", replicas([](auto& p) { p.refreshed_steps = 0; })},
      {"replicas-refreshed-in-4-steps-only", "gradient-later", "forward",
       replicas([](auto& p) { p.refreshed_steps = 4; })},
      {"replicas-without-rows-never-zeroed", "empty-shard", "step 1, scenario few",
       replicas([](auto& p) { p.zero_idle_replicas = false; })},
      {"replicas-never-zeroed", "gradient-meaning", "zeroed", replicas([](auto& p) { p.zero_replicas = false; })},
      {"buffers-of-the-last-replica", "buffers", "replica",
       replicas([](auto& p) { p.keep_buffers = buffers_of_the_last; }), norm},
      {"buffers-never-written-back", "buffers", "written back", replicas([](auto& p) {
         p.keep_buffers = [](Replicas& r) {
           for (auto& item : r.models[0]->named_buffers()) item.value().zero_();
         };
       }),
       norm},
      {"replica-reference", "", "", replicas([](auto&) {})},
      {"replica-reference-llama", "", "", replicas([](auto&) {}), "probe-llama"},
      {"replicas-for-adam-only", "", "", dp_for_adam_only, "probe-mlp"},
  };
}

}  // namespace dpbench::wrong
