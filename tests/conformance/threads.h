// Runs a case's suite in this process, with ranks as threads over a backend that supports them.
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
  Wrap wrap = {};  // wraps the backend in a wrong one
  std::chrono::milliseconds timeout{5000};
};

std::vector<CheckRow> check_in_threads(const ThreadsRequest& request);

}  // namespace dpbench
