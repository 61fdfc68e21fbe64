// Wrong strategies with mistakes in weight decay, momentum or the schedule of the learning rate.
#include <algorithm>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// The elements from, from + 1, .., from + count - 1 of one parameter.
struct ParameterPiece {
  size_t parameter;
  int64_t from, count;
};

std::vector<ParameterPiece> whole_parameters(const Run& run) {
  std::vector<ParameterPiece> pieces;
  for (size_t i = 0; i < run.leaves.size(); ++i) pieces.push_back({i, 0, run.leaves[i].numel()});
  return pieces;
}

// Concatenates all parameters, cuts them into one equal shard per rank, and returns each shard's pieces of parameters.
std::vector<std::vector<ParameterPiece>> sharded_parameters(const Run& run) {
  int64_t total = 0;
  for (const auto& leaf : run.leaves) total += leaf.numel();
  const int64_t size = (total + run.world - 1) / run.world;
  std::vector<std::vector<ParameterPiece>> shards(static_cast<size_t>(run.world));
  int64_t first = 0;
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    const int64_t end = first + run.leaves[i].numel();
    for (int64_t at = first; at < end;) {
      const int64_t next = std::min(end, (at / size + 1) * size);
      shards[static_cast<size_t>(at / size)].push_back({i, at - first, next - at});
      at = next;
    }
    first = end;
  }
  return shards;
}

at::Tensor part_of(const at::Tensor& tensor, const ParameterPiece& piece) {
  return tensor.detach().view({-1}).narrow(0, piece.from, piece.count);
}

void adamw(Run& run, const ParameterPiece& piece, const at::Tensor& gradient, double decay) {
  const OptimizerSpec spec = run.workload.optimizer();
  const size_t i = piece.parameter;
  std::vector<at::Tensor> leaf = {part_of(run.leaves[i], piece)}, slope = {part_of(gradient, piece)};
  at::_fused_adamw_(leaf, slope, {part_of(run.momenta[i], piece)}, {part_of(run.variances[i], piece)}, {},
                    {run.counts[i]}, learning_rate(spec, run.step), spec.beta1, spec.beta2, decay, spec.epsilon, false,
                    false);
}

double decay_of(const Run& run, size_t parameter) {
  return weight_decay(run.workload.optimizer(), run.leaves[parameter].dim());
}

// A mistake: does not decay elements whose gradient is zero.
void decay_where_gradients_are(Parts& parts) {
  parts.update = [right = parts.update](Run& run) {
    const double rate = learning_rate(run.workload.optimizer(), run.step);
    std::vector<at::Tensor> decay;
    for (size_t i = 0; i < run.leaves.size(); ++i)
      decay.push_back(run.leaves[i].detach() * run.gradients[i].eq(0) * (rate * decay_of(run, i)));
    right(run);
    for (size_t i = 0; i < run.leaves.size(); ++i) run.leaves[i].add_(decay[i]);
  };
}

void count_step(Run& run) {
  for (auto& count : run.counts) count += 1;
}

void decay_every_parameter(Run& run) {
  count_step(run);
  for (const ParameterPiece& piece : whole_parameters(run))
    adamw(run, piece, run.gradients[piece.parameter], run.workload.optimizer().weight_decay);
}

void step_each_name(Run& run) {
  count_step(run);
  const auto parameters = run.model->named_parameters();
  for (const auto& item : parameters)
    for (const ParameterPiece& piece : whole_parameters(run))
      if (item.value().is_same(run.leaves[piece.parameter]))
        adamw(run, piece, run.gradients[piece.parameter], decay_of(run, piece.parameter));
}

void decay_the_gradient(Run& run) {
  count_step(run);
  for (const ParameterPiece& piece : whole_parameters(run)) {
    const size_t i = piece.parameter;
    adamw(run, piece, run.gradients[i] + run.leaves[i] * decay_of(run, i), 0);
  }
}

// A mistake: each parameter's piece of a shard uses the weight decay of the next piece, except the shard's last piece.
void decay_of_the_next_piece(Run& run) {
  count_step(run);
  for (const auto& shard : sharded_parameters(run))
    for (size_t number = 0; number < shard.size(); ++number) {
      const size_t next = std::min(number + 1, shard.size() - 1);
      adamw(run, shard[number], run.gradients[shard[number].parameter], decay_of(run, shard[next].parameter));
    }
}

// A mistake: updates the momentum buffer once per micro-batch instead of once per step. run.kept: the accumulated
// gradients after each micro-batch.
void momentum_of_micro_batches(Parts& parts) {
  parts.after_micro = [](Run& run) {
    if (run.micro == 0) run.kept.clear();
    for (const at::Tensor& leaf : run.leaves) run.kept.push_back(leaf.grad().clone());
  };
  parts.update = [right = parts.update](Run& run) {
    if (run.micros == 1) return right(run);
    const OptimizerSpec spec = run.workload.optimizer();
    const size_t count = run.leaves.size();
    for (size_t i = 0; i < count; ++i) {
      for (size_t at = i; at < run.kept.size(); at += count) {
        at::Tensor own = at < count ? run.kept[at].clone() : run.kept[at] - run.kept[at - count];
        run.all_reduce(own);
        run.momenta[i].mul_(spec.momentum).add_(own / run.world);
      }
      run.leaves[i].sub_(run.momenta[i] * learning_rate(spec, run.step));
    }
  };
}

std::function<StrategyInfo()> updating_by(const std::function<void(Run&)>& update) {
  return with([update](Parts& parts) { parts.update = update; });
}

}  // namespace

std::vector<Mutant> optimizer_mutants() {
  const std::string adamw_model = "probe-mlp", momentum_model = "probe-batch-norm", zero_model = "probe-frozen";
  return {
      {"biases-decay-too", "optimizer-replay", "two dimensions", updating_by(decay_every_parameter), adamw_model},
      {"norms-decay-too", "optimizer-replay", "two dimensions", updating_by(decay_every_parameter), "gpt"},
      {"weight-decay-added-to-the-gradient", "optimizer-replay", "(L2)", updating_by(decay_the_gradient), adamw_model},
      {"pieces-of-a-shard-decay-like-their-neighbours", "optimizer-replay", "1 of 54|no weight decay",
       updating_by(decay_of_the_next_piece), adamw_model},
      {"never-decayed", "optimizer-replay", "no weight decay", with([](Parts& parts) {
         parts.update = [](Run& run) {
           count_step(run);
           for (const ParameterPiece& piece : whole_parameters(run))
             adamw(run, piece, run.gradients[piece.parameter], 0);
         };
       }),
       adamw_model},
      {"tied-parameter-stepped-under-each-name", "optimizer-replay", "parameter encoder", updating_by(step_each_name),
       "probe-tied"},
      {"schedule-one-step-late", "optimizer-replay", "schedule|late", with([](Parts& parts) {
         parts.update = [right = parts.update](Run& run) {
           const int64_t now = run.step;
           run.step = std::max<int64_t>(now - 1, 0);
           right(run);
           run.step = now;
         };
       }),
       "probe-mlp-sgd"},
      {"resumed-without-its-momentum-buffer", "optimizer-replay", "fresh", with([](Parts& parts) {
         parts.before_load = [](Run&, Snapshot& snapshot) {
           for (auto& [name, tensor] : snapshot.state) tensor = at::zeros_like(tensor);
         };
       }),
       momentum_model},
      {"momentum-applied-in-every-micro-batch", "optimizer-replay", "every micro-batch",
       with(momentum_of_micro_batches), momentum_model},
      {"gradients-of-zero-not-applied", "optimizer-replay", "aside", with([](Parts& parts) {
         parts.update = [right = parts.update](Run& run) {
           const auto gradients = run.gradients;
           for (auto& gradient : run.gradients)
             if (!gradient.any().item<bool>()) gradient = at::Tensor();
           right(run);
           run.gradients = gradients;
         };
       }),
       zero_model},
      {"no-decay-where-the-gradient-is-zero", "optimizer-replay", "aside", with(decay_where_gradients_are), zero_model},
      {"gradients-of-zero-reported-as-none", "gradient-meaning", "nothing", with([](Parts& parts) {
         parts.before_reduce = [right = parts.before_reduce](Run& run) {
           right(run);
           for (auto& gradient : run.gradients)
             if (!gradient.any().item<bool>()) gradient = at::Tensor();
         };
       }),
       zero_model},
      {"momentum-dampened", "optimizer-replay", "0.25 times", with([](Parts& parts) {
         parts.update = [right = parts.update](Run& run) {
           const auto gradients = run.gradients;
           for (auto& gradient : run.gradients) gradient = gradient * (1 - run.workload.optimizer().momentum);
           right(run);
           run.gradients = gradients;
         };
       }),
       momentum_model},
  };
}

}  // namespace dpbench::wrong
