// The judges' input for one scenario: every rank's evidence and the oracle's expectation for each step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/oracle.h"
#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct ExpectedStep {
  std::vector<Shard> shards;  // computed from the strategy's own parameters before the step
  std::vector<double> shares;
  std::vector<at::Tensor> gradient;          // combined by the declared semantics, in float64, not clipped
  std::vector<std::vector<at::Tensor>> own;  // gradient of each rank; empty if all parameters are reduced
  std::vector<bool> unreduced;               // true for parameters that are not reduced
  double unreduced_share = 1;                // factor on the shares of parameters that are not reduced
  std::vector<at::Tensor> whole;             // gradient of the whole batch on one device; empty if not requested
  std::vector<at::Tensor> single;            // the same in the scenario's dtype; only for smooth twins
  std::vector<bool> used;                    // parameters with a gradient in some shard
  std::vector<NamedTensors> buffers;         // buffers of each replica after the step

  const std::vector<at::Tensor>& gradient_of(int rank) const {
    return own.empty() ? gradient : own[static_cast<size_t>(rank)];
  }
};

struct Trial {
  const Bench& bench;
  const Scenario& scenario;
  std::optional<double> clip_norm;
  std::vector<Evidence> ranks;
  std::vector<std::string> names;                 // trainable parameters, each tensor once
  std::vector<std::vector<std::string>> aliases;  // all names of each parameter
  std::vector<ExpectedStep> expected;             // entries before scenario.judged_from are empty

  const Workload& workload() const { return bench.workload; }
  int world() const { return bench.layout.world; }
  const NamedTensors& parameters_before(int64_t step, int rank = 0) const;
  const NamedTensors& buffers_before(int64_t step, int rank = 0) const;
  // The gradient that a rank reported for a parameter; undefined if none.
  at::Tensor reported(int64_t step, size_t parameter, int rank = 0) const;
};

// Runs the oracle over all steps, in float64 or, to replay each shard's computation, in the scenario's dtype.
Trial make_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 std::vector<Evidence> ranks);

// The expected first step, computed before the strategy runs; used to choose the clipping norm and the loss scale.
ExpectedStep first_step(const Bench& bench, const Scenario& scenario);

}  // namespace dpbench
