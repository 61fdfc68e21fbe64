// Fills the env block of a report from /proc, /sys and environment variables. Compares env blocks.
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
  std::vector<std::vector<std::string>> links{};  // [i][j]: connection of GPU i to GPU j: NV18, PIX, SYS, ...
};

// Sources of the facts: this machine, or a test's directory tree.
struct Sources {
  std::filesystem::path root = "/";
  std::vector<int> affinity{};
  std::map<std::string, std::string> variables{};
};
Sources this_machine();

// Returns the env block with its fingerprint, a hash of comparable_fields.
Json environment(const Sources& sources, const Accelerators& accelerators, const Versions& versions);

EnvBlock read_env(const Json& env);
Json to_json(const LaunchedHost& host);
LaunchedHost launched_host_from_json(const Json& json);

// Stores the library versions that the workers loaded; the keys are those of env.versions.
void set_loaded_versions(Json& env, const std::map<std::string, std::string>& loaded);

// JSON pointers to the fields of env that must be equal for two runs to be comparable.
const std::vector<std::string>& comparable_fields();
// Returns the value at a pointer, or null. "/gpus/*/name" returns the list of all names.
Json field_of(const Json& env, const std::string& field);
std::string fingerprint(const Json& env);

// Returns the machine's part of a run id: "2xAMD-EPYC-5f3a", "8xH200-5f3a".
std::string machine_label(const Json& env);

// Returns the conditions that will make the figures noisy, with remedies.
std::vector<std::string> environment_warnings(const Json& env);
// Returns a warning for each host of an external launcher that differs from the first, with the differences.
std::vector<std::string> host_differences(const Json& env);

}  // namespace dpbench
