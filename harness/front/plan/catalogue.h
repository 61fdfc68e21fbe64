// What this build can do: strategies, workloads and backends as catalogue.json beside the worker lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/report/machine/environment.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

struct ParamEntry {
  std::string name, fallback, summary;
};

struct StrategyEntry {
  std::string name, summary;
  Parallelism parallelism = Parallelism::ranks;
  std::string gradient, buffers;
  bool cpu = true, cuda = true;
  std::vector<ParamEntry> params;

  bool runs_on(Device device) const { return device == Device::cuda ? cuda : cpu; }
};

struct WorkloadEntry {
  std::string name, summary;
  Scaling scaling = Scaling::weak;
  int64_t batch = 0;
  bool probe = false;
  bool thorough = false;  // where the short form of check leaves nothing out
  bool digits = false;    // reads the files of --data
  int64_t samples = 0;    // rows of an epoch, at scale 1 and without --data; 0: not known before a worker has made it
  bool plugin = false;    // its rows may be others with --scale or --data
};

struct BackendEntry {
  std::string name, summary;
  bool cpu = true, cuda = false, shares_device = true, threads = false;
  int cpu_preference = 0, cuda_preference = 0;  // --backend auto takes the highest; 0: never
  bool shares_memory = false;                   // between ranks of a host

  bool takes(Device device) const { return device == Device::cuda ? cuda : cpu; }
  int preference(Device device) const { return device == Device::cuda ? cuda_preference : cpu_preference; }
};

struct NotBuilt {
  std::string kind, name, reason;
};

struct Catalogue {
  std::string torch, cuda, nccl;  // built with; empty: without
  std::vector<StrategyEntry> strategies;
  std::vector<WorkloadEntry> workloads;
  std::vector<BackendEntry> backends;
  std::vector<NotBuilt> not_built;
  Json document;  // all of it, as the worker wrote it
};

// Throws UsageError when the text is not a catalogue.
Catalogue catalogue_from_json(const Json& json);

Versions versions_of(const Catalogue& catalogue);

// Why it cannot be used: what was built and cannot be loaded is in the build all the same.
std::string why_missing(const Catalogue& catalogue, const NotBuilt& missing);

// The entry of that name, or null.
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

// What is not made for checks or tests alone; that is taken where it is named, and never suggested.
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
