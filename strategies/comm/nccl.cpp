// "nccl": PyTorch's own GPU backend, bound to its rank's device. Part of dpbench_cuda only.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <exception>
#include <string>

#include "strategies/comm/base/logging_backend.h"
#include "strategies/comm/base/route.h"

namespace dpbench {
namespace {

// Shuts ProcessGroupNCCL down explicitly, as it requires. Shutdown is collective, so after an error it aborts instead.
class Nccl : public LoggingBackend<c10d::ProcessGroupNCCL> {
 public:
  using LoggingBackend::LoggingBackend;
  // PyTorch's default. DDP_DISABLE_COMM_MEM=0, which would change it, is meant only for our shm backend.
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
  // NCCL's bootstrap would listen on every interface. "=" means an exact name, not a prefix.
  if (!getenv("NCCL_SOCKET_IFNAME")) {
    const bool one_host = setup.local_world == setup.world;
    const std::string name = one_host ? "lo" : interface_of(address_towards_master());
    if (!name.empty()) setenv("NCCL_SOCKET_IFNAME", ("=" + name).c_str(), 0);
  }
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = setup.timeout;
  auto backend = c10::make_intrusive<Nccl>(setup.store, setup.rank, setup.world, options);
  backend->setBoundDeviceId(setup.device);
  backend->eagerConnectSingleDevice(setup.device);  // detects a missing peer here, not in the first step
  backend->log_calls(setup.note);
  return backend;
}

const RegisterBackend nccl{{.name = "nccl",
                            .summary = "PyTorch's NCCL, one GPU per rank",
                            .cpu = false,
                            .cuda = true,
                            .shares_device = false,
                            .cuda_preference = 20,
                            .make = make_nccl}};

}  // namespace
}  // namespace dpbench
