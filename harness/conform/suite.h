// The conformance suite for one case. Every rank of a group calls it; the result rows are on rank 0.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/conform/judges/rows.h"
#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct CheckRequest {
  const StrategyInfo& strategy;
  const WorkloadInfo& workload;
  WorkloadOptions options;
  int rank = 0;
  int world = 1;                                 // model replicas
  c10::intrusive_ptr<c10d::Store> store;         // with a prefix unique to this call; null for one process
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // null for one process
  std::vector<at::Device> devices;               // one per replica of this process
  at::ScalarType dtype = at::kFloat;             // the working dtype; float64 is always judged too
  ParamValues params;
  uint64_t seed = 1;
  bool long_form = false;  // run costly scenarios on all workloads, not only on thorough probes
  std::string filter;      // an extended regular expression on check names; empty = all
  // Called with this rank's evidence of every scenario and the norm to which gradients were clipped.
  std::function<void(const Bench&, const Scenario&, std::optional<double> clip_norm, const Evidence&)> show;
};

// Collective over the store. Returns the rows on rank 0, an empty list elsewhere. Throws UsageError for an invalid
// filter.
std::vector<CheckRow> run_checks(const CheckRequest& request);

}  // namespace dpbench
