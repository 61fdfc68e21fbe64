// The machine as the plan needs it. GPUs are asked for through NVML, so that CUDA is never started here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dpbench {

struct Gpu {
  std::string name, uuid;
  int64_t memory_bytes = 0;
};

struct Machine {
  int cores = 1;          // this process may use: its affinity and its cgroup's limit
  std::vector<int> cpus;  // ids of the affinity
  int64_t memory_bytes = 0;
  std::vector<Gpu> gpus;      // in the order CUDA numbers them here
  std::string no_gpu_reason;  // set when there are none
};

Machine detect_machine();

// Cores of a cgroup limit such as "150000 100000" (cpu.max), rounded up; 0: no limit.
int cores_of_cpu_max(const std::string& text);
// The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order: numbers or UUID prefixes, ending at the first that is
// unknown.
std::vector<Gpu> visible_gpus(const std::vector<Gpu>& all, const char* variable);

}  // namespace dpbench
