// Takes the same steps on a pipeline and on one device, which accumulates the gradients of the same micro-batches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "tests/unit/strategies/sharded/sharded_runs.h"

namespace dpbench::pipeline_steps {

using namespace sharded_runs;

struct Setting {
  std::string name, workload, model;
  int ranks;
  int64_t micros;
  Given params = {};

  std::unique_ptr<Workload> make_workload() const { return workload_registry().at(workload).make({.model = model}); }
};

inline void PrintTo(const Setting& one, std::ostream* out) { *out << one.name; }

// Returns `count` micro-batches with different samples; their numbers of samples differ too.
inline std::vector<Batch> micro_batches(const Workload& workload, int64_t count, int64_t step) {
  std::vector<Batch> all;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t first = (step * count + k) * 4;
    all.push_back(workload.batch(at::arange(first, first + 2 + k % 3).remainder(workload.samples())));
  }
  return all;
}

inline Outcome after_steps(Strategy& strategy, const Workload& workload, int64_t micros, int64_t steps = 3) {
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    Phases phases;
    const StepResult result = strategy.step(step, micro_batches(workload, micros, step), phases);
    outcome.results.emplace_back("loss of step " + std::to_string(step), result.loss.clone());
    if (step == steps - 1) outcome.results.emplace_back("output", result.whole_output().clone());
  }
  outcome.gradients = copies(strategy.gradients());
  outcome.parameters = copies(strategy.parameters());
  outcome.state = copies(strategy.state());
  outcome.buffers = copies(strategy.buffers());
  return outcome;
}

inline Outcome steps_on_one_device(const Setting& run, int64_t steps = 3) {
  const auto workload = run.make_workload();
  Outcome outcome;
  expect_no_errors(on_ranks(1, [&](Rank& me) {
    const auto strategy = made_on(me.mesh(""), "ddp", *workload, {}, at::kFloat, {});
    outcome = after_steps(*strategy, *workload, run.micros, steps);
  }));
  return outcome;
}

}  // namespace dpbench::pipeline_steps
