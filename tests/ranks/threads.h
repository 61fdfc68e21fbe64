// Runs the conformance suite on one case in this process. Each rank is a thread, over a backend that supports threads.
#pragma once

#include "harness/conform/evidence/forwarding_backend.h"
#include "harness/conform/suite.h"

namespace dpbench {

struct ThreadsRequest {
  const StrategyInfo& strategy;
  const WorkloadInfo& workload;
  int world = 3;
  at::ScalarType dtype = at::kFloat;
  std::map<std::string, std::string> params = {};
  uint64_t seed = 1;
  bool long_form = false;
  std::string filter = {};
  std::string backend = "threads";
  Wrap wrap = {};  // if set, wraps each rank's backends, e.g. in a faulty one
  std::chrono::milliseconds timeout{5000};
  std::string mesh = {};  // mesh of the ranks, e.g. "dp=2,tp=2"; empty: all ranks on the axis dp
  int64_t recompute = 0;  // value of the flag --recompute
};

std::vector<CheckRow> check_in_threads(const ThreadsRequest& request);

}  // namespace dpbench
