// Runs the training steps of a case with one CPU device exactly as a dpbench worker does, and times several variants
// (arms) of a step alternately.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/micro/team.h"
#include "harness/worker/steps/case_setup.h"
#include "harness/worker/steps/step_timer.h"

namespace dpbench::micro {

CaseSpec cpu_case(const std::string& workload, int64_t batch);

class CaseSteps {
 public:
  explicit CaseSteps(const CaseSpec& spec);

  // Runs `steps` training steps and returns their time in nanoseconds.
  int64_t block(int64_t steps, bool phases = false);
  const Workload& workload() const { return *workload_; }
  StepSource& source() { return source_; }

 private:
  const StrategyInfo& info_;
  std::unique_ptr<Workload> workload_;
  Group group_;
  Pulse pulse_{"", 0};
  StepSource source_;
  std::unique_ptr<Strategy> strategy_;
  StepTimer timer_;
  std::vector<int64_t> readings_;
};

struct StepArm {
  const char* name;
  std::function<int64_t()> block;  // runs the variant's block of steps; returns its time in nanoseconds
  std::vector<double> us = {};
};

// Times a block of each variant (arm) in turn, so that their ratios are reliable on a noisy machine. Sets counters:
// NAME_us is the median time per step; NAME/BEFORE is the median ratio of a variant to the one before it in `arms`.
void alternate(benchmark::State& state, std::vector<StepArm> arms, int64_t steps);

// Registers a benchmark whose work only rank 0 does. The other ranks register it with the same number of iterations and
// do nothing.
void add_steps(const Team& team, const std::string& name, int64_t blocks,
               const std::function<void(benchmark::State&)>& run);

}  // namespace dpbench::micro
