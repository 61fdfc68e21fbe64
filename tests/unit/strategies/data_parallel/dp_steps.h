// Makes single-process strategies (dp, cpu) for a test's own workload and runs their steps.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/strategy.h"

namespace dpbench::dp_steps {

inline std::unique_ptr<Strategy> made(const std::string& name, const Workload& workload, size_t devices,
                                      const std::map<std::string, std::string>& params = {}) {
  const StrategyInfo& info = strategy_registry().at(name);
  return info.make({.workload = workload,
                    .devices = std::vector<at::Device>(devices, at::Device(at::kCPU)),
                    .init_seed = 3,
                    .step_seed = 4,
                    .dtype = at::kDouble,
                    .params = Params(info.params, params, name),
                    .clip_norm = {}});
}

// Runs the steps in order; each step is a list of micro-batch sizes.
inline void take_steps(Strategy& strategy, const Workload& workload, const std::vector<std::vector<int64_t>>& steps) {
  Phases phases;
  int64_t first = 0;
  for (size_t step = 0; step < steps.size(); ++step) {
    std::vector<Batch> micro;
    for (const int64_t rows : steps[step])
      micro.push_back(workload.batch(at::arange(first, first + rows))), first += rows;
    strategy.step(static_cast<int64_t>(step), micro, phases);
  }
}

}  // namespace dpbench::dp_steps
