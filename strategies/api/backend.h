// Registry of communication backends (c10d backends such as gloo or nccl). A new backend is one file with a
// RegisterBackend.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "workloads/api/plugin_abi.h"
#include "workloads/base/registry.h"

namespace dpbench {

// A collective call that a backend is about to start.
struct StartedCall {
  uint64_t number = 0;    // number of the call in the backend's sequence of calls
  std::string_view text;  // the call's description, for example "allreduce of 12 Float (sum)"
  // The group of ranks that make the call, for example "dp=2,tp=2/dp/1"; empty: all ranks.
  std::string_view group = {};
};
using NoteCall = std::function<void(const StartedCall&)>;

struct BackendSetup {
  c10::intrusive_ptr<c10d::Store> store;  // rendezvous store with a prefix private to this process group
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  // this rank's index among the ranks of its host, and the number of these ranks
  // Global number of each rank of this group, for error messages; empty if the group has all ranks.
  std::vector<int> ranks = {};
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{30000};
  std::string directory;  // this run's directory for temporary files on this host
  // CPU cores of all ranks of this host; empty if the ranks are not pinned to cores. A backend's helper threads may use
  // all of them.
  std::vector<int> cores = {};
  // Function that a backend calls with a description of each collective, so that an error message can name ranks that
  // call different collectives. Backends that compare the ranks' calls themselves do not call the function.
  NoteCall note = {};

  // Converts the number of a rank within this process group to its number among all ranks.
  int global(int rank_of_group) const {
    return ranks.empty() ? rank_of_group : ranks.at(static_cast<size_t>(rank_of_group));
  }
};

struct BackendInfo {
  std::string name, summary;
  bool cpu = true, cuda = false;  // whether the backend accepts CPU tensors and CUDA tensors
  bool unproven_on_gpu = false;   // true until all checks have passed with several ranks on GPUs; shown in result rows
  bool shares_device = true;      // true if two ranks of this backend may use the same GPU
  bool threads = false;           // true if this backend's ranks are threads of one process, as in some tests
  // `--backend auto` picks the backend with the highest preference for the device. A backend with preference 0 is never
  // picked.
  int cpu_preference = 0, cuda_preference = 0;
  // True if the backend uses memory shared by a host's ranks. `--backend auto` skips such a backend if every host has
  // one rank.
  bool shares_memory = false;
  std::function<c10::intrusive_ptr<c10d::Backend>(const BackendSetup&)> make;
};

// Returns the name of a reduction, such as "sum".
const char* reduction_name(c10d::ReduceOp::RedOpType op);

Registry<BackendInfo>& backend_registry();

struct RegisterBackend {
  explicit RegisterBackend(BackendInfo info);
};

// Returns a process group that uses the named backend for CPU tensors and, if setup.device is a CUDA device, for CUDA
// tensors.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& backend, const BackendSetup& setup);

}  // namespace dpbench
