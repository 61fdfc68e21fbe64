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
  double unwatched_s = 1;  // time limit of the oracle for the scenario `unwatched`
  std::string filter = {};
  std::vector<std::string> scenarios = {};  // names of the scenarios to run; empty: all that the case has
  std::string backend = "threads";
  Wrap wrap = {};  // if set, replaces each rank's backends, e.g. by wrappers with a fault
  std::chrono::milliseconds timeout{30000};
  std::string mesh = {};  // mesh of the ranks, e.g. "dp=2,tp=2"; empty: all ranks on the axis dp
  int64_t recompute = 0;  // --recompute K: keep only the input of every K blocks; 0: keep everything
};

std::vector<CheckRow> check_in_threads(const ThreadsRequest& request);

}  // namespace dpbench
