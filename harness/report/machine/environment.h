// Fills the env block of a report from /proc, /sys and variables, and compares two of them.
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
  std::vector<std::vector<std::string>> links{};  // [i][j]: how GPU i reaches GPU j: NV18, PIX, SYS, ...
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

EnvBlock read_env(const Json& env);
Json to_json(const LaunchedHost& host);
LaunchedHost launched_host_from_json(const Json& json);

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
