// Runs the ranks of a mesh as threads or processes.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/api/mesh.h"
#include "tests/ranks/comm_ranks.h"

namespace dpbench::testing {

inline BackendSetup with_prefix(const std::string& prefix, BackendSetup setup) {
  setup.store = c10::make_intrusive<c10d::PrefixStore>(prefix, setup.store);
  return setup;
}

// Makes the process group of all ranks, then this rank's mesh.
inline Mesh mesh_of(const std::string& backend, const MeshShape& axes, const BackendSetup& setup) {
  const auto world = make_process_group(backend, with_prefix("world", setup));
  return Mesh(axes, world, backend, with_prefix("mesh", setup));
}

struct Kind {
  std::string backend;
  As as;
};
inline const std::vector<Kind> kinds = {{"threads", As::threads}, {"shm", As::processes}, {"gloo", As::processes}};

}  // namespace dpbench::testing
