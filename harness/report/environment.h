// The env block of a report: enough to explain why two runs differ. Reads /proc, /sys and variables.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/protocol.h"

namespace dpbench {

// One GPU as NVML tells it; what it does not tell stays empty and is written as null.
struct GpuState {
  std::string name{}, uuid{}, pci_bus{};
  int64_t memory_bytes = 0;
  std::optional<int> sm_clock_mhz{}, max_sm_clock_mhz{}, memory_clock_mhz{}, temperature_c{}, power_limit_w{};
  std::optional<int> pcie_generation{}, pcie_lanes{};
  std::optional<bool> ecc{}, mig{}, throttled{};
};

struct Accelerators {
  std::vector<GpuState> gpus;
  std::string driver{}, cuda_driver{};
  std::vector<std::vector<std::string>> links{};  // [i][j]: how GPU i reaches GPU j: NV18, PIX, SYS, ...
};

// What dpbench was built with. The loaded ones are what the CUDA library of the workers says of itself.
struct Versions {
  std::string torch{}, cuda{}, nccl{}, cuda_loaded{}, nccl_loaded{};
};

// Where facts are read from: this machine, or a test's own tree.
struct Sources {
  std::filesystem::path root = "/";
  std::vector<int> affinity{};
  std::map<std::string, std::string> variables{};
};
Sources this_machine();

// With its fingerprint: of all that makes speeds comparable (comparable_fields), nothing that changes by itself.
Json environment(const Sources& sources, const Accelerators& accelerators, const Versions& versions);

// What the workers loaded, by the keys of env.versions.
void note_versions(Json& env, const std::map<std::string, std::string>& loaded);

// JSON pointers into env that must be equal for two runs to be compared.
const std::vector<std::string>& comparable_fields();
// The value at a pointer; null where there is none; "/gpus/*/name" is the list of all.
Json field_of(const Json& env, const std::string& field);
std::string fingerprint(const Json& env);

// "2xAMD-EPYC-5f3a", "8xH200-5f3a": the machine's part of a run's id.
std::string machine_label(const Json& env);

// What will make the figures noisy, each with what to do about it.
std::vector<std::string> environment_warnings(const Json& env);
// Of hosts that a launcher's ranks run on: which is unlike the first, and in what.
std::vector<std::string> unlike_hosts(const Json& env);

}  // namespace dpbench
