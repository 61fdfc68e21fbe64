// The machine as the plan needs it. GPUs are asked for through NVML, so that CUDA is never started here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/report/machine/environment.h"

namespace dpbench {

struct Machine {
  int cores = 1;               // this process may use: its affinity and its cgroup's limit
  std::vector<int> cpus;       // ids of the affinity
  std::vector<GpuState> gpus;  // in the order CUDA numbers them here
  std::string no_gpu_reason;   // set when there are none
};

Machine detect_machine(const Accelerators& accelerators, const std::string& no_gpu_reason);

// Cores of a cgroup limit such as "150000 100000" (cpu.max), rounded up; 0: no limit.
int cores_of_cpu_max(const std::string& text);
// The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order: numbers or UUID prefixes, ending at the first that is
// unknown.
std::vector<GpuState> visible_gpus(const std::vector<GpuState>& all, const char* variable);

}  // namespace dpbench
