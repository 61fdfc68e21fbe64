// Fills the env block (machine facts) of a report from /proc, /sys and environment variables, and compares env blocks.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/machine/env_block.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

struct Accelerators {
  std::vector<GpuState> gpus;
  std::string driver{}, cuda_driver{};
  // links[i][j]: connection of GPU i to GPU j in the notation of `nvidia-smi topo`: NV18, PIX, SYS, ...
  std::vector<std::vector<std::string>> links{};
};

// Source of the machine facts: this machine, or a directory tree made by a test.
struct Sources {
  std::filesystem::path root = "/";
  std::vector<int> affinity{};
  std::map<std::string, std::string> variables{};
};
Sources this_machine();

// Returns the env block (machine facts) with its fingerprint, a hash of the facts that must be equal for two runs to be
// comparable.
Json environment(const Sources& sources, const Accelerators& accelerators, const Versions& versions);

EnvBlock read_env(const Json& env);
Json to_json(const LaunchedHost& host);
LaunchedHost launched_host_from_json(const Json& json);

// Sets fields of env.versions to the versions of the libraries that the workers loaded. The map's keys are the names of
// these fields.
void set_loaded_versions(Json& env, const std::map<std::string, std::string>& loaded);

// Returns JSON pointers to the fields of the env block that must be equal for two runs to be comparable.
const std::vector<std::string>& comparable_fields();
// Returns the value of the env block at a JSON pointer, or null. "/gpus/*/name" returns the list of all GPUs' names.
Json field_of(const Json& env, const std::string& field);
std::string fingerprint(const Json& env);

// Returns the machine's part of a run id, e.g. "2xAMD-EPYC-5f3a" or "8xH200-5f3a".
std::string machine_label(const Json& env);

// Returns warnings about machine conditions that will make the figures noisy, with remedies. Empty if there are none.
std::vector<std::string> environment_warnings(const Json& env);
// Returns the one of these warnings that says that other work is running; empty if the load average is low or unknown.
std::string load_warning(const Json& env);
// Returns the CPU governor if it lets the clock rate vary; empty if it does not, or if it is not known.
std::string varying_governor(const Json& env);
// Returns a warning for each host that differs from the first host, with the differences. Only a run started by an
// external launcher such as torchrun has several hosts.
std::vector<std::string> host_differences(const Json& env);

}  // namespace dpbench
