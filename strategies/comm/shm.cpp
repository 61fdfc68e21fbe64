// The backends "shm" (ranks are processes) and "threads" (ranks are threads, for tests): our shared-memory collectives,
// with Gloo between hosts if there are several.
#include <cstdlib>

#include "strategies/comm/base/staged.h"
#include "strategies/comm/hosts/hosts.h"
#include "strategies/comm/shm/shm_backend.h"

namespace dpbench {
namespace {

// c10d's Reducer allocates its buckets through the backend, and so in shared memory, only if the environment variable
// DDP_DISABLE_COMM_MEM is 0; PyTorch's default is 1. The variable is set while the library is loaded, when no other
// thread can be reading the environment.
[[maybe_unused]] const int buckets_in_shared_memory = setenv("DDP_DISABLE_COMM_MEM", "0", 0);

template <shm::Home home>
c10::intrusive_ptr<c10d::Backend> make_shm(const BackendSetup& setup) {
  c10::intrusive_ptr<c10d::Backend> host;
  if (setup.local_world < setup.world)
    host = c10::make_intrusive<HostsBackend>(setup, home);
  else
    host = c10::make_intrusive<shm::ShmBackend>(setup, home);
  if (setup.device.is_cuda()) return c10::make_intrusive<StagedBackend>(host, setup.device);
  return host;
}

const RegisterBackend processes{{.name = "shm",
                                 .summary = "shared memory between the processes of a host, Gloo between hosts",
                                 .cuda = true,
                                 .cpu_preference = 20,
                                 .shares_memory = true,
                                 .make = make_shm<shm::Home::processes>}};
const RegisterBackend threads{{.name = "threads",
                               .summary = "the code of shm between threads of one process, for tests",
                               .threads = true,
                               .make = make_shm<shm::Home::threads>}};

}  // namespace
}  // namespace dpbench
