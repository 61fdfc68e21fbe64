// The backend "nccl": PyTorch's own GPU backend, bound to its rank's device. Part of the library dpbench_cuda only.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <exception>
#include <string>

#include "strategies/comm/base/logging_backend.h"
#include "strategies/comm/base/route.h"

namespace dpbench {
namespace {

// The backend calls ProcessGroupNCCL::shutdown() in its destructor, as PyTorch requires. shutdown() waits for all
// ranks, so after an error abort() is called instead.
class Nccl : public LoggingBackend<c10d::ProcessGroupNCCL> {
 public:
  using LoggingBackend::LoggingBackend;
  // Returns false, so that c10d's Reducer does not allocate its buckets through NCCL. By default the Reducer does not
  // ask, but the backend shm sets DDP_DISABLE_COMM_MEM=0, and the Reducer then asks every backend.
  bool supportsTensorAlloc(c10::DeviceIndex) override { return false; }
  ~Nccl() override {
    try {
      getError() == c10d::ErrorType::SUCCESS ? ProcessGroupNCCL::shutdown() : ProcessGroupNCCL::abort();
    } catch (const std::exception& error) {
      TORCH_WARN("NCCL did not shut down: ", error.what());
    }
  }
};

c10::intrusive_ptr<c10d::Backend> make_nccl(const BackendSetup& setup) {
  if (!setup.device.is_cuda()) throw UsageError("backend 'nccl' takes CUDA devices only. Use --backend auto.");
  // By default NCCL's bootstrap listens on every network interface. NCCL_SOCKET_IFNAME limits it to one; a leading "="
  // means that the name must match exactly, not as a prefix.
  if (!getenv("NCCL_SOCKET_IFNAME")) {
    const bool one_host = setup.local_world == setup.world;
    const std::string name = one_host ? "lo" : interface_of(address_towards_master());
    if (!name.empty()) setenv("NCCL_SOCKET_IFNAME", ("=" + name).c_str(), 0);
  }
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = setup.timeout;
  auto backend = c10::make_intrusive<Nccl>(setup.store, setup.rank, setup.world, options);
  backend->setBoundDeviceId(setup.device);
  // Connects to the other ranks during set-up, so that a missing rank is detected before the first step.
  backend->eagerConnectSingleDevice(setup.device);
  backend->log_calls(setup.note);
  return backend;
}

const RegisterBackend nccl{{.name = "nccl",
                            .summary = "PyTorch's NCCL, one GPU per rank",
                            .cpu = false,
                            .cuda = true,
                            .unproven_on_gpu = true,
                            .shares_device = false,
                            .cuda_preference = 20,
                            .make = make_nccl}};

}  // namespace
}  // namespace dpbench
