// Makes a case of the workload "toy", for tests of loops over cases.
#pragma once

#include <string>

#include "harness/report/record/case.h"

namespace dpbench {

inline CaseSpec spec_of(const std::string& strategy, int processes = 1) {
  CaseSpec spec;
  spec.strategy = strategy;
  spec.workload = "toy";
  spec.world = spec.processes = processes;
  spec.backend = processes > 1 ? "shm" : "none";
  spec.id = case_id(spec);
  return spec;
}

}  // namespace dpbench
