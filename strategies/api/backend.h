// Registry of c10d backends. A new backend is one file with a RegisterBackend.
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

// Called with a description of each collective before it starts; `number` is the backend's sequence number.
using NoteCall = std::function<void(uint64_t number, std::string_view call)>;

struct BackendSetup {
  c10::intrusive_ptr<c10d::Store> store;  // rendezvous store, with a prefix private to this group
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  // among the ranks of this host
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{30000};
  std::string directory;  // private to the run, on this host
  // Cores of all ranks of this host, if each rank is pinned to its own. Helper threads of a backend may use all of
  // them.
  std::vector<int> cores = {};
  NoteCall note = {};  // only for backends that do not compare the ranks' calls themselves
};

struct BackendInfo {
  std::string name, summary;
  bool cpu = true, cuda = false;  // accepted tensors
  bool shares_device = true;      // two ranks may use one GPU
  bool threads = false;           // ranks are threads of one process; for tests
  // --backend auto picks the backend with the highest preference for the device; 0: never.
  int cpu_preference = 0, cuda_preference = 0;
  bool shares_memory = false;  // uses memory shared by a host's ranks; auto skips it if every host has one rank
  std::function<c10::intrusive_ptr<c10d::Backend>(const BackendSetup&)> make;
};

// Returns the operation's name, such as "sum".
const char* reduction_name(c10d::ReduceOp::RedOpType op);

Registry<BackendInfo>& backend_registry();

struct RegisterBackend {
  explicit RegisterBackend(BackendInfo info);
};

// Returns a process group that uses the named backend for CPU and CUDA tensors.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& backend, const BackendSetup& setup);

}  // namespace dpbench
