// Makers of c10d backends: what a process group's collectives run on. Adding one is one file with a RegisterBackend in
// it.
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

// Hears of each collective, in words, before it begins; number: as the backend counts them.
using NoteCall = std::function<void(uint64_t number, std::string_view call)>;

struct BackendSetup {
  c10::intrusive_ptr<c10d::Store> store;  // rendezvous, prefixed for this group alone
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  // among the ranks of this host
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{30000};
  std::string directory;  // private to the run, on this host: segments live here
  // Of all ranks of this host, where each keeps to a share of them: threads that a backend starts to move data may use
  // all.
  std::vector<int> cores = {};
  NoteCall note = {};  // of the backends that do not compare the ranks' calls themselves
};

struct BackendInfo {
  std::string name, summary;
  bool cpu = true, cuda = false;  // the tensors it takes
  bool shares_device = true;      // may two ranks use one GPU?
  bool threads = false;           // its ranks are threads of one process: for tests
  // --backend auto takes the highest of those for its device; 0: never.
  int cpu_preference = 0, cuda_preference = 0;
  bool shares_memory = false;  // between ranks of a host: auto takes another where every host has one rank
  std::function<c10::intrusive_ptr<c10d::Backend>(const BackendSetup&)> make;
};

// As in "sum".
const char* reduction_name(c10d::ReduceOp::RedOpType op);

Registry<BackendInfo>& backend_registry();

struct RegisterBackend {
  explicit RegisterBackend(BackendInfo info);
};

// A process group whose default backend, for CPU and CUDA tensors alike, is the named one.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& backend, const BackendSetup& setup);

}  // namespace dpbench
