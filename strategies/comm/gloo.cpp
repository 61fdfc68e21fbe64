// "gloo": PyTorch's own CPU backend over TCP. On one host it listens on loopback alone.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <cstdlib>
#include <sstream>

#include "strategies/comm/backend.h"
#include "strategies/comm/route.h"

namespace dpbench {
namespace {

using Gloo = c10d::ProcessGroupGloo;
using Devices = decltype(Gloo::Options::devices);

// GLOO_SOCKET_IFNAME rules; else loopback within one host, and the address that leads to the master across hosts.
Devices devices_for(const BackendSetup& setup) {
  Devices devices;
  if (const char* names = std::getenv("GLOO_SOCKET_IFNAME")) {
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) devices.push_back(Gloo::createDeviceForInterface(name));
  } else {
    const bool one_host = setup.local_world == setup.world;
    devices.push_back(Gloo::createDeviceForHostname(one_host ? "127.0.0.1" : address_towards_master()));
  }
  return devices;
}

// Gloo writes to sockets whose other end may have gone: as an error that names the peer, not as this process's own death.
void let_closed_sockets_be_errors() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendSetup& setup) {
  let_closed_sockets_be_errors();
  auto options = Gloo::Options::create(setup.timeout);
  options->devices = devices_for(setup);
  return c10::make_intrusive<Gloo>(setup.store, setup.rank, setup.world, options);
}

const RegisterBackend gloo{{.name = "gloo",
                            .summary = "PyTorch's Gloo over TCP, CUDA tensors staged through the host",
                            .cuda = true,
                            .make = make_gloo}};

}  // namespace
}  // namespace dpbench
