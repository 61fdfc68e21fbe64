#include "harness/worker/rank/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds first_interval(50), longest_interval(2000);
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string address_text(const Rendezvous& rendezvous) {
  return rendezvous.host + ":" + std::to_string(rendezvous.port);
}

std::runtime_error no_answer(const Rendezvous& rendezvous, std::chrono::milliseconds timeout, const std::string& why) {
  return std::runtime_error("nobody answered at " + address_text(rendezvous) + " within " +
                            std::to_string(timeout.count() / 1000) + " s (" + why + "): is rank 0 running?");
}

Addresses addresses_of(const Rendezvous& rendezvous) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(rendezvous.host.c_str(), std::to_string(rendezvous.port).c_str(), &hints, &found);
  if (failed) throw UsageError("MASTER_ADDR '" + rendezvous.host + "': " + gai_strerror(failed));
  return {found, &freeaddrinfo};
}

// Tries to connect to the rendezvous address. Returns an empty string if the address accepts connections, otherwise the
// reason for the failure.
std::string connection_error(const Rendezvous& rendezvous, Clock::time_point until) try {
  std::string why = "no address";
  const Addresses addresses = addresses_of(rendezvous);
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    int failed = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      socklen_t size = sizeof failed;
      if (poll(&ready, 1, static_cast<int>(std::max<int64_t>(left, 0))) <= 0)
        failed = ETIMEDOUT;
      else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    }
    close(fd);
    if (failed == 0) return "";
    why = std::strerror(failed);
  }
  return why;
} catch (const UsageError& error) {
  return error.what();  // an unknown host name is no error yet, because it may resolve at a later try
}

// Waits until the rendezvous address accepts connections; throws after the timeout. TCPStore's own retries back off and
// would overrun the timeout by seconds.
void wait_for_listener(const Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  for (;;) {
    const std::string why = connection_error(rendezvous, until);
    if (why.empty()) return;
    if (Clock::now() >= until) throw no_answer(rendezvous, timeout, why);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Returns a socket that listens on the rendezvous address only; TCPStore's own socket would listen on every interface.
int listening_socket(const Rendezvous& rendezvous) {
  const Addresses addresses = addresses_of(rendezvous);
  std::string why;
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
    why = std::strerror(errno);
    close(fd);
  }
  throw UsageError("rank 0 cannot listen at " + address_text(rendezvous) + ": " + why +
                   ". Set MASTER_ADDR to an address of rank 0's host and MASTER_PORT to a free port.");
}

// A file-based rendezvous store that polls every 50 us to 2 ms. c10d's FileStore polls every 10 ms, which would
// dominate the time to start the ranks and every exchange of check results.
class FastFileStore : public c10d::FileStore {
 public:
  FastFileStore(std::string path, int workers) : FileStore(std::move(path), workers), workers_(workers) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<FastFileStore>(path_, workers_); }
  std::vector<uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  int workers_;
};

std::vector<uint8_t> FastFileStore::get(const std::string& key) {
  wait({key});
  return FileStore::get(key);
}

void FastFileStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void FastFileStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto begin = Clock::now();
  const auto in_time = [&] { return timeout == kNoTimeout || Clock::now() - begin < timeout; };
  for (auto interval = first_interval; !check(keys) && in_time(); interval = std::min(2 * interval, longest_interval))
    std::this_thread::sleep_for(interval);
  // Throws c10d's timeout error if a key is still missing at the end of the timeout.
  FileStore::wait(keys, std::chrono::milliseconds(1));
}

c10::intrusive_ptr<c10d::Store> prefixed(const Rendezvous& rendezvous, c10::intrusive_ptr<c10d::Store> store) {
  return c10::make_intrusive<c10d::PrefixStore>("dpbench-" + rendezvous.nonce, std::move(store));
}

}  // namespace

c10::intrusive_ptr<c10d::Store> file_store(const std::string& file, int ranks) {
  return c10::make_intrusive<FastFileStore>(file, ranks);
}

Rendezvous parse_rendezvous(const std::string& address, const std::string& nonce) {
  if (address.empty()) return {};
  const size_t colon = address.rfind(':');
  Rendezvous rendezvous{.host = address.substr(0, colon), .port = 0, .nonce = nonce};
  const char* end = address.data() + address.size();
  const auto port = colon == std::string::npos ? address.data() : address.data() + colon + 1;
  const auto [stop, error] = std::from_chars(port, end, rendezvous.port);
  if (error != std::errc{} || stop != end || rendezvous.port < 1 || rendezvous.port > 65535 || rendezvous.host.empty())
    throw UsageError("DPBENCH_STORE='" + address + "' is not host:port");
  return rendezvous;
}

c10::intrusive_ptr<c10d::Store> join_rendezvous(const Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.waitWorkers = false;
  options.timeout = timeout;
  wait_for_listener(rendezvous, timeout);
  try {
    return prefixed(rendezvous, c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options));
  } catch (const c10::Error&) {
    throw no_answer(rendezvous, timeout, "the listener is not a TCPStore");
  }
}

c10::intrusive_ptr<c10d::Store> serve_rendezvous(const Rendezvous& rendezvous) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listening_socket(rendezvous);
  return prefixed(rendezvous, c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options));
}

}  // namespace dpbench
