// Compares some steps of a strategy on a mesh with the same steps of ddp, in which one device computes each replica.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "tests/unit/strategies/sharded/sharded_runs.h"

namespace dpbench::one_device {

using namespace sharded_runs;

struct Setting {
  std::string strategy, mesh, workload, model = {};
  Given params = {};
  std::optional<double> clip_norm = {};
  // largest allowed difference between results in float64; results of models in whole numbers must agree exactly
  double limit = 1e-10;
  int64_t scale = 1;  // WorkloadOptions::scale
};

inline std::string text_of(const Setting& one) {
  std::string text = one.strategy + "_" + one.workload + "_" + one.model + "_" + one.mesh +
                     (one.clip_norm ? "_clipped" : "") + (one.scale > 1 ? "_scale_" + std::to_string(one.scale) : "");
  for (const auto& [name, value] : one.params) text += "_" + name + "_" + value;
  for (const char other : {'-', ',', '=', '.'}) std::ranges::replace(text, other, '_');
  return text;
}

inline void PrintTo(const Setting& one, std::ostream* out) { *out << text_of(one); }

// Returns two micro-batches of different sizes. In odd replicas, each has one sample less than in even replicas.
inline std::vector<Batch> micro_batches(const Workload& workload, int64_t step, int replica) {
  const int64_t first = step * 20 + replica * 10, most = 3 - replica % 2;
  return {workload.batch(at::arange(first, first + most)),
          workload.batch(at::arange(first + most, first + 2 * most - 1))};
}

struct Result {
  Outcome outcome;
  at::Tensor output, loss, evaluated;
  NamedTensors buffers;
};

// Takes three steps and returns their results. `rank` selects the samples to evaluate.
inline Result after_steps(Strategy& strategy, const Workload& workload, int replica, int rank) {
  Result result;
  for (int64_t step = 0; step < 3; ++step) {
    Phases phases;
    const StepResult one = strategy.step(step, micro_batches(workload, step, replica), phases);
    result.output = one.whole_output().clone();
    result.loss = one.loss.clone();
  }
  result.outcome = {copies(strategy.gradients()), copies(strategy.parameters()), copies(strategy.state())};
  result.buffers = copies(strategy.buffers());
  result.evaluated = strategy.forward(workload.batch(at::arange(rank, rank + 4)));
  return result;
}

// Takes three steps on all ranks, and returns the results of one rank.
inline Result result_of(const Setting& one, int rank) {
  const auto workload = workload_registry().at(one.workload).make({.scale = one.scale, .model = one.model});
  const MeshShape shape = parse_mesh(one.mesh);
  const int ranks = ranks_of(shape);
  Result result;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const auto made = made_on(me.mesh(one.mesh), one.strategy, *workload, one.params, at::kDouble, one.clip_norm);
    Result mine = after_steps(*made, *workload, data_place(shape, ranks, me.rank).replica, rank);
    if (me.rank == rank) result = std::move(mine);
  }));
  return result;
}

// Takes a step on a mesh, in float64. Returns the gradients and the loss of the last rank.
inline NamedTensors gradients_and_loss(const Workload& workload, const std::string& strategy, const std::string& mesh,
                                       const Given& params = {}) {
  const int ranks = ranks_of(parse_mesh(mesh));
  NamedTensors found;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const auto made = made_on(me.mesh(mesh), strategy, workload, params);
    Phases phases;
    const StepResult result = made->step(0, micro_batches(workload, 0, 0), phases);
    NamedTensors mine = copies(made->gradients());
    mine.emplace_back("the loss", result.loss.clone());
    if (me.rank == ranks - 1) found = std::move(mine);
  }));
  return found;
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

inline void expect_near(const NamedTensors& due, const NamedTensors& found, double limit, const std::string& kind) {
  ASSERT_EQ(due.size(), found.size()) << kind;
  for (const auto& [name, tensor] : due) {
    const at::Tensor* other = find(found, name);
    ASSERT_TRUE(other) << kind << " " << name;
    ASSERT_EQ(other->sizes(), tensor.sizes()) << kind << " " << name;
    EXPECT_LE(distance(tensor, *other), limit) << kind << " " << name;
  }
}

// Expects that the first and the last rank have the same results as after the same steps under ddp.
inline void expect_steps_of_one_device(const Setting& one) {
  const MeshShape shape = parse_mesh(one.mesh);
  const int ranks = ranks_of(shape), replicas = data_place(shape, ranks, 0).replicas;
  const double limit = one.workload.starts_with("gpt-exact") ? 0 : one.limit;
  for (const int rank : {0, ranks - 1}) {
    const int replica = data_place(shape, ranks, rank).replica;
    const Setting plain{.strategy = "ddp",
                        .mesh = "dp=" + std::to_string(replicas),
                        .workload = one.workload,
                        .model = one.model,
                        .clip_norm = one.clip_norm,
                        .scale = one.scale};
    const Result due = result_of(plain, replica), found = result_of(one, rank);
    expect_near(due.outcome.gradients, found.outcome.gradients, limit, "gradient of");
    expect_near(due.outcome.parameters, found.outcome.parameters, limit, "parameter");
    expect_near(due.outcome.state, found.outcome.state, limit, "state");
    expect_near(due.buffers, found.buffers, limit, "buffer");
    EXPECT_LE(distance(due.output, found.output), limit);
    EXPECT_LE(distance(due.loss, found.loss), limit);
    if (replica == rank) {
      EXPECT_LE(distance(due.evaluated, found.evaluated), limit);
    }
  }
}

}  // namespace dpbench::one_device
