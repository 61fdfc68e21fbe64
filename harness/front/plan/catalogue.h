// The catalogue: the strategies, workloads, backends and checks of this build, as in the file catalogue.json next to
// the worker program (dpbench-worker).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/machine/environment.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// The numbers that a parameter accepts.
struct AllowedNumbers {
  bool whole = false;  // true: integers alone
  NumberRange range{};

  bool has(const std::string& text) const;
};

struct ParamEntry {
  // allowed: the parameter's allowed values as a text, in the format of ParamInfo::values in strategies/api/params.h;
  // "on|off" for a switch; empty: any text.
  ParamEntry(std::string name, std::string fallback, std::string summary, const std::string& allowed);

  std::string name, fallback, summary;
  ParamKind kind;
  std::string values;                // the values that the parameter allows, as shown to the user
  std::vector<std::string> choices;  // words that the parameter accepts, if it is a choice or a switch; else empty
  std::optional<AllowedNumbers> numbers{};  // numbers that the parameter accepts, perhaps besides words
};

struct Declaration {
  std::string name, value, summary;  // a property that the strategy declares at its registration
};

struct StrategyEntry {
  std::string name, summary;
  Parallelism parallelism = Parallelism::ranks;
  std::string gradient, buffers;
  bool cpu = true, cuda = true, unproven_on_gpu = false;
  std::vector<std::string> axes = {};  // mesh axes that the strategy supports
  std::vector<Declaration> declares = {};
  std::vector<ParamEntry> params;
  bool python = false;  // true: each rank runs in a Python interpreter

  bool runs_on(Device device) const { return device == Device::cuda ? cuda : cpu; }
  // Returns the first axis of a mesh that the strategy does not use; empty if it uses all.
  std::string missing_axis(const MeshShape& mesh) const {
    for (const AxisSize& axis : mesh)
      if (std::ranges::find(axes, axis.name) == axes.end()) return axis.name;
    return "";
  }
};

struct WorkloadEntry {
  std::string name, summary;
  Scaling scaling = Scaling::weak;
  int64_t batch = 0;
  bool probe = false;
  bool thorough = false;                 // even without --long, `check` runs the slow test scenarios on this workload
  bool digits = false;                   // the workload reads the MNIST files in the --data directory
  std::vector<std::string> models = {};  // names that --model accepts; empty: the workload has a single model
  std::string model_sizes = {};          // names of the sizes that --model can set, such as layers
  // Groups of alternative sizes for --model, such as "layers=1" and "layers=2", the simplest first. `check --layouts`
  // draws one alternative from each group.
  std::vector<std::vector<std::string>> drawn_sizes = {};
  std::string check_model = {};  // model of `check`; empty: the workload's default
  // Number of samples per epoch, at scale 1, without --model and --data. 0: known only once a worker has built the
  // workload.
  int64_t samples = 0;
  bool plugin = false;   // true for a plug-in, whose sample count may depend on --scale and --data
  bool python = false;   // true: each rank runs in a Python interpreter
  bool experts = false;  // true: the model, or one of drawn_sizes, has experts
};

struct BackendEntry {
  std::string name, summary;
  bool cpu = true, cuda = false, unproven_on_gpu = false, shares_device = true, threads = false;
  // Preference of this backend: --backend auto takes the backend with the highest; 0: never taken.
  int cpu_preference = 0, cuda_preference = 0;
  bool shares_memory = false;  // ranks on one host communicate through shared memory with this backend

  bool takes(Device device) const { return device == Device::cuda ? cuda : cpu; }
  int preference(Device device) const { return device == Device::cuda ? cuda_preference : cpu_preference; }
};

struct CheckEntry {
  std::string name, summary;
};

struct NotBuilt {
  std::string kind, name, reason;
};

struct Catalogue {
  std::string torch, cuda, nccl;  // versions of the libraries that the build uses; empty: built without the library
  std::vector<StrategyEntry> strategies;
  std::vector<WorkloadEntry> workloads;
  std::vector<BackendEntry> backends;
  std::vector<CheckEntry> checks;
  std::vector<NotBuilt> not_built;
  Json document;  // the complete catalogue JSON as written by the worker
};

// Parses the catalogue's JSON. Throws UsageError if it is not a valid catalogue.
Catalogue catalogue_from_json(const Json& json);

// Returns the strategy of the baseline on a device: the first single-device strategy that runs there; null without one.
const StrategyEntry* baseline_on(Device device, const Catalogue& catalogue);

Versions versions_of(const Catalogue& catalogue);

// Returns why `missing` (a strategy, workload or backend) cannot be used: "not in this build: " and a reason; in a
// build with CUDA, "in this build, but " and a reason.
std::string why_missing(const Catalogue& catalogue, const NotBuilt& missing);

// Returns the entry called `name`, or null if there is none.
template <class Entry>
const Entry* find_entry(const std::vector<Entry>& entries, const std::string& name) {
  for (const auto& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

// True for entries meant for users. Other entries exist only for checks or tests, and names_for_users() leaves them
// out.
inline bool is_for_users(const StrategyEntry&) { return true; }
inline bool is_for_users(const WorkloadEntry& workload) { return !workload.probe; }
inline bool is_for_users(const BackendEntry& backend) { return !backend.threads; }

template <class Entry>
std::vector<std::string> names_for_users(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries)
    if (is_for_users(entry)) names.push_back(entry.name);
  return names;
}

}  // namespace dpbench
