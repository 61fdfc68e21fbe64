// Cores and GPUs of this machine. GPUs are queried through NVML, so CUDA is never initialised in this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/report/machine/environment.h"

namespace dpbench {

struct Machine {
  int cores = 1;               // cores usable by this process, given its affinity and cgroup limit
  std::vector<int> cpus;       // core ids in this process's affinity mask
  std::vector<GpuState> gpus;  // GPUs in CUDA's device order
  std::string no_gpu_reason;   // why no GPU is usable; set only if `gpus` is empty
};

Machine detect_machine(const Accelerators& accelerators, const std::string& no_gpu_reason);

// Returns the number of cores that a cgroup limit like "150000 100000" (cpu.max) allows, rounded up. 0 means no limit.
int cores_of_cpu_max(const std::string& text);
// Returns the GPUs listed in CUDA_VISIBLE_DEVICES (`variable`), in that order, or all GPUs if `variable` is null.
// Entries are numbers or UUID prefixes. As in CUDA, the list ends at the first unknown entry.
std::vector<GpuState> visible_gpus(const std::vector<GpuState>& all, const char* variable);

}  // namespace dpbench
