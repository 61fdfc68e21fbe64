#include "harness/front/plan/machine.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "harness/front/text/text.h"
#include "harness/report/machine/host_files.h"

namespace dpbench {
namespace {

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

// Returns the tightest core limit of this process's cgroup and its ancestors (cgroup v2), or the cgroup v1 limit. 0
// means no limit.
int cgroup_cores() {
  std::string group;
  for (const auto& line : split(read_small("/proc/self/cgroup").value_or(""), '\n'))
    if (line.starts_with("0::")) group = line.substr(3);
  int fewest = 0;
  for (std::string at = group; !group.empty(); at = at.substr(0, at.rfind('/'))) {
    const int cores = cores_of_cpu_max(read_small("/sys/fs/cgroup" + at + "/cpu.max").value_or(""));
    if (cores > 0) fewest = fewest == 0 ? cores : std::min(fewest, cores);
    if (at.empty() || at == "/") break;
  }
  if (fewest > 0) return fewest;
  return cores_of_cpu_max(read_small("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").value_or("") + " " +
                          read_small("/sys/fs/cgroup/cpu/cpu.cfs_period_us").value_or(""));
}

}  // namespace

int cores_of_cpu_max(const std::string& text) {
  std::istringstream in(text);
  int64_t quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((quota + period - 1) / period, 1 << 20));
}

std::vector<GpuState> visible_gpus(const std::vector<GpuState>& all, const char* variable) {
  if (!variable) return all;
  std::vector<GpuState> visible;
  for (const auto& word : split(variable, ',')) {
    const bool number = !word.empty() && word.size() < 6 && word.find_first_not_of("0123456789") == std::string::npos;
    const auto named = [&](const GpuState& gpu) { return !word.empty() && gpu.uuid.starts_with(word); };
    auto found = number ? all.begin() + std::min<ptrdiff_t>(std::stoi(word), std::ssize(all))
                        : std::find_if(all.begin(), all.end(), named);
    if (found == all.end()) break;
    visible.push_back(*found);
  }
  return visible;
}

Machine detect_machine(const Accelerators& accelerators, const std::string& no_gpu_reason) {
  Machine machine;
  machine.cpus = affinity();
  const int limit = cgroup_cores(), usable = static_cast<int>(machine.cpus.size());
  machine.cores = limit > 0 ? std::min(limit, usable) : usable;
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  machine.gpus = visible_gpus(accelerators.gpus, variable);
  if (!machine.gpus.empty()) return machine;
  const bool hidden = !accelerators.gpus.empty() && variable;
  machine.no_gpu_reason = hidden ? "CUDA_VISIBLE_DEVICES='" + one_line(variable, 60) + "' hides them" : no_gpu_reason;
  return machine;
}

}  // namespace dpbench
