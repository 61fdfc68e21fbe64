// "gloo": PyTorch's own CPU backend over TCP. On one host it listens on loopback alone.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/comm/base/logging_backend.h"
#include "strategies/comm/base/route.h"
#include "workloads/base/cores.h"

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Gloo = LoggingBackend<c10d::ProcessGroupGloo>;
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

// Gloo writes to sockets whose other end may have gone: as an error that names the peer, not as this process's own
// death.
void let_closed_sockets_be_errors() {
  struct sigaction now{};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Every rank sends its number to every other.
void hear_from_all(Gloo& gloo, Milliseconds limit) {
  at::Tensor sent = at::full({gloo.getSize()}, gloo.getRank(), at::kLong);
  at::Tensor heard = at::full({gloo.getSize()}, -1, at::kLong);
  std::vector<int64_t> even;
  c10d::AllToAllOptions options;
  options.timeout = limit;
  gloo.alltoall_base(heard, sent, even, even, options)->wait();
  if (!heard.equal(at::arange(gloo.getSize())))
    throw std::runtime_error("gloo: somebody else answers in place of a rank");
}

// Whether all ranks say so: over the store, for their connections may be what is wrong.
bool all_say(const BackendSetup& setup, c10d::Store& store, bool mine, Milliseconds limit) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < setup.world; ++rank) keys.push_back("heard-all/" + std::to_string(rank));
  store.set(keys.at(static_cast<size_t>(setup.rank)), mine ? "yes" : "no");
  store.wait(keys, limit);
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return store.get_to_str(key) == "yes"; });
}

// Gloo knows who connects by a number counted from 0: while the ranks connect, a stranger's zeros can take the place of
// one, which nobody notices before something is awaited from there. Then all connect anew, at other ports, within what
// is left of the time limit: a rank that went missing between two attempts is waited for no longer than one that never
// came.
c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendSetup& setup) {
  constexpr int attempts = 6;
  // Its threads sleep most of the time: a rank's own thread, on the same core, would only make them wait when they are
  // woken.
  const OnCores where_it_works(setup.cores);
  let_closed_sockets_be_errors();
  const auto until = Clock::now() + setup.timeout;
  const auto spent = [&] { return until - Clock::now() < Milliseconds(1); };
  const auto left = [&] {
    return std::max(std::chrono::duration_cast<Milliseconds>(until - Clock::now()), Milliseconds(1));
  };
  auto limit = Milliseconds(1000 + 25 * setup.world);
  for (int number = 1;; ++number, limit *= 2) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("attempt-" + std::to_string(number), setup.store);
    auto options = Gloo::Options::create(left());
    options->devices = devices_for(setup);
    c10::intrusive_ptr<Gloo> gloo;
    std::exception_ptr failed;
    try {
      gloo = c10::make_intrusive<Gloo>(store, setup.rank, setup.world, options);
      if (setup.world > 1) hear_from_all(*gloo, std::min(left(), limit));
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
    const bool last = number == attempts || spent();
    if (failed && last) std::rethrow_exception(failed);
    if (all_say(setup, *store, !failed, left())) {
      gloo->setTimeout(setup.timeout);  // of each collective from now on
      gloo->hear_calls(setup.note);
      return gloo;
    }
    if (last) throw std::runtime_error("gloo: another rank did not hear from all");
  }
}

const RegisterBackend gloo{{.name = "gloo",
                            .summary = "PyTorch's Gloo over TCP, CUDA tensors staged through the host",
                            .cuda = true,
                            .cpu_preference = 10,
                            .cuda_preference = 10,
                            .make = make_gloo}};

}  // namespace
}  // namespace dpbench
