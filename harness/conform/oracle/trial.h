// One scenario as the judges get it: what every rank saw, and beside each step what the oracle makes of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/oracle.h"
#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct ExpectedStep {
  std::vector<Shard> shards;  // at the parameters that the strategy itself had before this step
  std::vector<double> shares;
  std::vector<at::Tensor> gradient;          // combined by the declared meaning, in float64, not clipped
  std::vector<std::vector<at::Tensor>> own;  // of each rank, where something is not reduced; else empty
  std::vector<bool> alone;                   // which parameters are not
  double alone_share = 1;                    // what a share is multiplied by where a parameter is
  std::vector<at::Tensor> whole;             // of the whole batch on one device; empty where it was not asked for
  std::vector<at::Tensor> single;            // the same in the scenario's own dtype; only on smooth twins
  std::vector<bool> used;                    // had a gradient in some shard
  std::vector<NamedTensors> buffers;         // of each replica after the step

  const std::vector<at::Tensor>& gradient_of(int rank) const {
    return own.empty() ? gradient : own[static_cast<size_t>(rank)];
  }
};

struct Trial {
  const Bench& bench;
  const Scenario& scenario;
  std::optional<double> clip_norm;
  std::vector<Evidence> ranks;
  std::vector<std::string> names;                 // of the trainable parameters, each tensor once
  std::vector<std::vector<std::string>> aliases;  // all names of each
  std::vector<ExpectedStep> expected;             // empty ones before scenario.judged_from

  const Workload& workload() const { return bench.workload; }
  int world() const { return bench.layout.world; }
  const NamedTensors& parameters_before(int64_t step, int rank = 0) const;
  const NamedTensors& buffers_before(int64_t step, int rank = 0) const;
  // What a rank reported for the parameter with this number; undefined if nothing.
  at::Tensor reported(int64_t step, size_t parameter, int rank = 0) const;
};

// Runs the oracle over all steps: float64, or the scenario's own dtype to repeat what each shard should have computed.
Trial make_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 std::vector<Evidence> ranks);

// What a right strategy's first step makes, before there is one: clipping and range are chosen by it.
ExpectedStep first_step(const Bench& bench, const Scenario& scenario);

}  // namespace dpbench
