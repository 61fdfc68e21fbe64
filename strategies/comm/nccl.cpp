// "nccl": PyTorch's own GPU backend, bound to its rank's device. Part of dpbench_cuda alone.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <exception>
#include <string>

#include "strategies/comm/base/logging_backend.h"
#include "strategies/comm/base/route.h"

namespace dpbench {
namespace {

// ProcessGroupNCCL wants to be told to go: shutting down is collective, so after an error it is aborted instead.
class Nccl : public LoggingBackend<c10d::ProcessGroupNCCL> {
 public:
  using LoggingBackend::LoggingBackend;
  // As PyTorch leaves it unless told otherwise: that buckets may lie in shared memory is meant for our own backend.
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
  if (!setup.device.is_cuda()) throw UsageError("backend 'nccl' takes CUDA devices only; use --backend auto");
  // Its bootstrap would listen on every interface. "=": this name exactly, not all that begin with it.
  if (!getenv("NCCL_SOCKET_IFNAME")) {
    const bool one_host = setup.local_world == setup.world;
    const std::string name = one_host ? "lo" : interface_of(address_towards_master());
    if (!name.empty()) setenv("NCCL_SOCKET_IFNAME", ("=" + name).c_str(), 0);
  }
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = setup.timeout;
  auto backend = c10::make_intrusive<Nccl>(setup.store, setup.rank, setup.world, options);
  backend->setBoundDeviceId(setup.device);
  backend->eagerConnectSingleDevice(
      setup.device);  // a peer that does not come is found out here, not in the first step
  backend->hear_calls(setup.note);
  return backend;
}

const RegisterBackend nccl{{.name = "nccl",
                            .summary = "PyTorch's NCCL, a GPU for each rank",
                            .cpu = false,
                            .cuda = true,
                            .shares_device = false,
                            .cuda_preference = 20,
                            .make = make_nccl}};

}  // namespace
}  // namespace dpbench
