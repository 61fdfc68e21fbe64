// The conformance suite of one case: every rank of a group calls it together; the rows are rank 0's.
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
  c10::intrusive_ptr<c10d::Store> store;         // keys of this call alone (PrefixStore); null for one process
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // null for one process
  std::vector<at::Device> devices;               // a replica each for one process, else this rank's own
  at::ScalarType dtype = at::kFloat;             // the working dtype; float64 is always judged too
  ParamValues params;
  uint64_t seed = 1;
  bool long_form = false;  // costly scenarios, and not only on thorough probes
  std::string filter;      // an extended regular expression on check names; empty = all
  // Sees this rank's evidence of every scenario, and the norm that its gradients were limited to.
  std::function<void(const Bench&, const Scenario&, std::optional<double> clip_norm, const Evidence&)> show;
};

// Collective over the store. Rows on rank 0, an empty list elsewhere. Throws UsageError for a filter that is none.
std::vector<CheckRow> run_checks(const CheckRequest& request);

}  // namespace dpbench
