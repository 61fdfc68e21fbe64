// "gloo": PyTorch's own CPU backend over TCP. On a single host it listens only on loopback, unless GLOO_SOCKET_IFNAME
// names other interfaces.
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

#include "strategies/comm/base/comm_work.h"
#include "strategies/comm/base/logging_backend.h"
#include "strategies/comm/base/route.h"
#include "strategies/comm/base/staged.h"
#include "workloads/base/cores.h"

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Gloo with a reduce-scatter that sends half as many bytes. PyTorch's Gloo implements a reduce-scatter as an allreduce
// of the whole tensor. This class exchanges the pieces with an all-to-all, and each rank adds the pieces that it
// receives in the order of ranks. It handles sums of CPU tensors; PyTorch's implementation handles all other calls.
class ExchangingGloo : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  WorkPtr _reduce_scatter_base(at::Tensor& piece, at::Tensor& whole,
                               const c10d::ReduceScatterOptions& options) override {
    return is_exchanged(whole, options) ? exchange_sum(piece, whole, options)
                                        : ProcessGroupGloo::_reduce_scatter_base(piece, whole, options);
  }
#else
  WorkPtr reduce_scatter_single(at::Tensor& piece, at::Tensor& whole,
                                const c10d::ReduceScatterOptions& options) override {
    return is_exchanged(whole, options) ? exchange_sum(piece, whole, options)
                                        : ProcessGroupGloo::reduce_scatter_single(piece, whole, options);
  }
#endif

 private:
  // Returns true if this class runs a reduce-scatter itself, as an all-to-all. The result depends only on values that
  // are equal on all ranks, so all ranks call the same collective.
  bool is_exchanged(const at::Tensor& whole, const c10d::ReduceScatterOptions& options) const {
    return getSize() > 1 && options.reduceOp == c10d::ReduceOp::SUM && whole.is_cpu();
  }

  WorkPtr exchange_sum(const at::Tensor& piece, const at::Tensor& whole, const c10d::ReduceScatterOptions& options) {
    TORCH_CHECK(whole.scalar_type() == piece.scalar_type() && whole.numel() == piece.numel() * getSize(),
                "reduce_scatter: the input must have the output's dtype and ", getSize(), " times its elements");
    at::Tensor received = at::empty({getSize(), piece.numel()}, whole.options());
    std::vector<int64_t> even;
    c10d::AllToAllOptions limit;
    limit.timeout = options.timeout;
    at::Tensor sent = whole.contiguous().view({getSize(), piece.numel()});
    const auto exchanged = ProcessGroupGloo::alltoall_base(received, sent, even, even, limit);
    auto done = c10::make_intrusive<CommWork>(getRank(), c10d::OpType::_REDUCE_SCATTER_BASE,
                                              exchanged->getSequencenumber(), std::vector<at::Tensor>{piece});
    exchanged->getFuture()->addCallback([done, received, piece](c10::ivalue::Future& exchange) {
      if (exchange.hasError()) return done->fail(exchange.exception_ptr());
      try {
        add_pieces(received, piece);
      } catch (...) {
        return done->fail(std::current_exception());
      }
      done->succeed();
    });
    return done;
  }

  static void add_pieces(const at::Tensor& received, at::Tensor piece) {
    const at::NoGradGuard no_grad;
    // 16-bit pieces are added in float32 and rounded once
    const bool narrow = at::isReducedFloatingType(piece.scalar_type());
    at::Tensor sum = narrow ? received[0].to(at::kFloat) : received[0];
    for (int64_t rank = 1; rank < received.size(0); ++rank) sum.add_(received[rank]);
    piece.copy_(sum.view(piece.sizes()));
  }
};

// PyTorch's Gloo copies GPU tensors through the host in collectives, but not in sends, receives and all-to-alls. This
// class adds these copies.
class Gloo : public LoggingBackend<ExchangingGloo> {
 public:
  using LoggingBackend::LoggingBackend;

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    if (tensors.at(0).is_cpu()) return LoggingBackend::send(tensors, to, tag);
    return send_through_host(tensors[0], [&](Tensors& host) { return LoggingBackend::send(host, to, tag); });
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    if (tensors.at(0).is_cpu()) return LoggingBackend::recv(tensors, from, tag);
    return receive_through_host(tensors[0], [&](Tensors& host) { return LoggingBackend::recv(host, from, tag); });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    if (input.is_cpu()) return LoggingBackend::alltoall_base(output, input, output_sizes, input_sizes, options);
    return exchange_through_host(output, input, [&](Tensors& host) {
      return LoggingBackend::alltoall_base(host[0], host[1], output_sizes, input_sizes, options);
    });
  }
};

using Devices = decltype(Gloo::Options::devices);

// Returns the network devices that Gloo listens on: the interfaces in GLOO_SOCKET_IFNAME if it is set, otherwise
// loopback on a single host, and across hosts the local address of the route to MASTER_ADDR.
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

// Ignores SIGPIPE, so that writing to a closed socket does not kill this process but returns an error with the peer's
// name.
void ignore_sigpipe() {
  struct sigaction now{};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Exchanges rank numbers between all ranks. Throws if a connection leads to another program or to the wrong rank.
void verify_connections(Gloo& gloo, Milliseconds limit) {
  at::Tensor sent = at::full({gloo.getSize()}, gloo.getRank(), at::kLong);
  at::Tensor received = at::full({gloo.getSize()}, -1, at::kLong);
  std::vector<int64_t> even;
  c10d::AllToAllOptions options;
  options.timeout = limit;
  gloo.alltoall_base(received, sent, even, even, options)->wait();
  if (!received.equal(at::arange(gloo.getSize())))
    throw std::runtime_error("gloo: a connection leads to another process than the expected rank");
}

// Returns true if all ranks pass `connected` = true. Ranks exchange the values through the rendezvous store, because
// the connections between ranks may be broken.
bool all_connected(const BackendSetup& setup, c10d::Store& store, bool connected, Milliseconds limit) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < setup.world; ++rank) keys.push_back("heard-all/" + std::to_string(rank));
  store.set(keys.at(static_cast<size_t>(setup.rank)), connected ? "yes" : "no");
  store.wait(keys, limit);
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return store.get_to_str(key) == "yes"; });
}

// Makes the Gloo backend and verifies its connections. Gloo trusts the number that an incoming connection sends, so
// another program that connects and sends zeros could take a rank's place unnoticed. If a connection is wrong, all
// ranks reconnect on other ports. All attempts share one timeout: a rank that dies between two attempts delays the
// others no longer than a rank that never started.
c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendSetup& setup) {
  constexpr int attempts = 6;
  // Gloo's threads mostly sleep. They may use the cores of all ranks of this host, so that they need not wait for the
  // core on which their own rank computes.
  const OnCores all_cores(setup.cores);
  ignore_sigpipe();
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
      if (setup.world > 1) verify_connections(*gloo, std::min(left(), limit));
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
    const bool last = number == attempts || spent();
    if (failed && last) std::rethrow_exception(failed);
    if (all_connected(setup, *store, !failed, left())) {
      // All ranks are connected. The remaining part of the set-up timeout no longer applies: each collective gets the
      // user's timeout.
      gloo->setTimeout(setup.timeout);
      gloo->log_calls(setup.note);
      return gloo;
    }
    if (last) throw std::runtime_error("gloo: another rank could not connect to all ranks");
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
