// Wrong strategies with mistakes in state that outlives a step: initial weights, buffers, the optimizer and its state.
#include <utility>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

void broadcast_parameters(Run& run) {
  for (const auto& item : run.model->named_parameters()) run.broadcast(item.value().detach());
}

void broadcast_buffers(Run& run) {
  for (const auto& item : run.model->named_buffers()) run.broadcast(item.value());
}

void broadcast_all_but_the_last(Run& run) {
  broadcast_buffers(run);
  const auto parameters = run.model->named_parameters();
  for (size_t i = 0; i + 1 < parameters.size(); ++i) run.broadcast(parameters[i].value().detach());
}

void average_weights(Run& run) {
  broadcast_buffers(run);
  for (const auto& item : run.model->named_parameters()) {
    at::Tensor value = item.value().detach();
    run.all_reduce(value);
    value.div_(run.world);
  }
}

using Update = std::function<void(Run&, const std::function<void(Run&)>& right)>;

std::function<StrategyInfo()> updating(const Update& update) {
  return with(
      [update](Parts& parts) { parts.update = [update, right = parts.update](Run& run) { update(run, right); }; });
}

std::function<StrategyInfo()> resuming_without(NamedTensors Snapshot::* part) {
  return with([part](Parts& parts) {
    parts.before_load = [part](Run&, Snapshot& snapshot) {
      for (auto& [name, tensor] : snapshot.*part) tensor = at::zeros_like(tensor);
    };
  });
}

double rate_of(const Run& run) { return learning_rate(run.workload.optimizer(), run.step); }

void plain_sgd(Run& run, double rate) {
  for (size_t i = 0; i < run.leaves.size(); ++i)
    if (run.gradients[i].defined()) run.leaves[i].sub_(run.gradients[i] * rate);
}

void skip_on_own_nan(Run& run, const std::function<void(Run&)>& right) {
  for (const auto& leaf : run.leaves)
    if (leaf.grad().defined() && !leaf.grad().isfinite().all().item<bool>()) return;
  right(run);
}

void decay_frozen(Run& run, const std::function<void(Run&)>& right) {
  right(run);
  for (const auto& item : run.model->named_parameters())
    if (!item.value().requires_grad()) item.value().mul_(0.999);
}

void cast_counters(Parts& parts) {
  parts.start = [right = parts.start](Run& run) {
    right(run);
    for (auto& item : run.model->named_buffers()) item.value().set_data(item.value().to(run.dtype));
  };
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const auto& tensor : tensors) all.push_back(tensor.defined() ? tensor.clone() : tensor);
  return all;
}

}  // namespace

std::vector<Mutant> state_mutants() {
  const std::string norm = "probe-batch-norm", adam = "probe-mlp";
  return {
      {"resumed-without-its-weights", "reload-midway", "scenario reload", resuming_without(&Snapshot::parameters)},
      {"resumed-without-its-buffers", "buffers", "scenario reload", resuming_without(&Snapshot::buffers), norm},
      {"resumed-without-its-optimizer-state", "optimizer-replay", "fresh", resuming_without(&Snapshot::state), adam},
      {"weights-not-broadcast", "initial-broadcast", "broadcast", with([](Parts& p) { p.start = broadcast_buffers; })},
      {"last-weight-not-broadcast", "initial-broadcast", "b2",
       with([](Parts& p) { p.start = broadcast_all_but_the_last; })},
      {"weights-averaged-at-the-start", "initial-broadcast", "mixed",
       with([](Parts& p) { p.start = average_weights; })},
      {"buffers-not-broadcast-at-the-start", "initial-broadcast", "batches",
       with([](Parts& p) { p.start = broadcast_parameters; }), norm},
      {"buffers-not-broadcast", "buffers", "broadcast", with([](Parts& p) { p.sync_buffers = [](Run&) {}; }), norm},
      {"buffers-broadcast-after-the-step", "buffers", "before", with([](Parts& p) {
         p.sync_buffers = [](Run&) {};
         p.after_reduce = broadcast_buffers;
       }),
       norm},
      {"statistics-lost", "buffers", "written back", with([](Parts& p) {
         p.after_reduce = [](Run& run) { run.model->named_buffers()["norm.running_mean"].zero_(); };
       }),
       norm},
      {"counter-cast-to-floating-point", "initial-broadcast", " cast", with(cast_counters), norm},
      {"stepped-twice", "optimizer-replay", "updated twice",
       updating([](Run& run, const auto& right) { right(run), right(run); })},
      {"adam-stepped-twice-after-the-first-step", "optimizer-replay", "updated twice",
       updating([](Run& run, const auto& right) {
         right(run);
         if (run.step > 0) right(run);
       }),
       adam},
      {"stepped-with-the-gradient-before", "optimizer-replay", "step before", updating([](Run& run, const auto& right) {
         const auto now = run.gradients;
         if (run.step > 0) run.gradients = run.kept;
         right(run);
         run.gradients = now;
         run.kept = copies(now);
       })},
      {"stepped-with-its-own-gradient", "optimizer-replay", "this rank's", with([](Parts& p) {
         p.before_reduce = [right = p.before_reduce](Run& run) {
           right(run);
           run.kept = copies(run.gradients);
         };
         p.update = [right = p.update](Run& run) {
           const auto now = std::exchange(run.gradients, run.kept);
           right(run);
           run.gradients = now;
         };
       })},
      {"never-stepped", "optimizer-replay", "not updated", updating([](Run&, const auto&) {})},
      {"never-learns", "loss-falls", "not updated", updating([](Run&, const auto&) {})},
      {"rate-times-world", "optimizer-replay", "3 times",
       updating([](Run& run, const auto&) { plain_sgd(run, rate_of(run) * run.world); })},
      {"rate-halved-from-step-4-on", "optimizer-replay", "0.5 times", updating([](Run& run, const auto& right) {
         if (run.step < 4) return right(run);
         plain_sgd(run, rate_of(run) / 2);
       })},
      {"uphill", "loss-falls", "wrong direction",
       updating([](Run& run, const auto&) { plain_sgd(run, -rate_of(run)); })},
      {"weights-decay-at-world-1", "world-1-bits", "update", updating([](Run& run, const auto& right) {
         for (auto& leaf : run.leaves) leaf.mul_(1 - 0x1p-19);
         right(run);
       }),
       "probe-mlp-sgd", 1},
      {"gradient-divided-and-multiplied-at-world-1", "world-1-bits", "scale", with([](Parts& p) {
         p.after_reduce = [](Run& run) {
           for (auto& gradient : run.gradients) gradient.div_(3).mul_(3);
         };
       }),
       "probe-mlp-sgd", 1},
      {"only-rank-0-steps", "ranks-agree-parameters", "alone", updating([](Run& run, const auto& right) {
         if (run.rank == 0) right(run);
       })},
      {"rank-skips-its-own-NaN", "ranks-agree-parameters", "alone", updating(skip_on_own_nan)},
      {"frozen-parameter-decays", "frozen-parameters", "frozen", updating(decay_frozen), "probe-frozen"},
      {"adam-state-forgotten", "optimizer-replay", "another state", updating([](Run& run, const auto& right) {
         for (auto& momentum : run.momenta) momentum.zero_();
         right(run);
       }),
       adam},
      {"adam-without-bias-correction", "optimizer-replay", " times ", updating([](Run& run, const auto& right) {
         for (auto& count : run.counts) count.add_(1000);
         right(run);
         for (auto& count : run.counts) count.sub_(1000);
       }),
       adam},
      {"adam-state-of-a-rank-differs", "ranks-agree-state", "another state", updating([](Run& run, const auto& right) {
         right(run);
         if (run.rank == 2 && run.step == 2) run.variances[0].mul_(1.01);
       }),
       adam},
      {"tied-parameter-stepped-twice", "optimizer-replay", "updated twice", updating([](Run& run, const auto& right) {
         right(run);
         for (size_t i = 1; i < run.leaves.size(); ++i) run.gradients[i] = at::Tensor();
         right(run);
       }),
       "probe-tied"},
      {"unused-parameter-stepped", "optimizer-replay", "without|gradient", updating([](Run& run, const auto& right) {
         right(run);
         for (size_t i = 0; i < run.leaves.size(); ++i)
           if (!run.gradients[i].defined()) run.leaves[i].add_(0.01);
       }),
       "probe-unused"},
  };
}

}  // namespace dpbench::wrong
