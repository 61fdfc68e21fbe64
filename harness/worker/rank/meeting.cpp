#include "harness/worker/rank/meeting.h"

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
constexpr std::chrono::microseconds first_pause(50), longest_pause(2000);
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string address_text(const Meeting& meeting) { return meeting.host + ":" + std::to_string(meeting.port); }

std::runtime_error nobody_answered(const Meeting& meeting, std::chrono::milliseconds timeout, const std::string& why) {
  return std::runtime_error("nobody answered at " + address_text(meeting) + " within " +
                            std::to_string(timeout.count() / 1000) + " s (" + why + "): is rank 0 there?");
}

Addresses addresses_of(const Meeting& meeting) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(meeting.host.c_str(), std::to_string(meeting.port).c_str(), &hints, &found);
  if (failed) throw UsageError("MASTER_ADDR '" + meeting.host + "': " + gai_strerror(failed));
  return {found, &freeaddrinfo};
}

// Whether somebody listens at one of these addresses; what it says otherwise is why not.
std::string why_unanswered(const Meeting& meeting, Clock::time_point until) try {
  std::string why = "no address";
  const Addresses addresses = addresses_of(meeting);
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
  return error.what();  // a name may become known later
}

// The store's own tries come ever more rarely: it would notice the end of its time seconds late.
void wait_for_listener(const Meeting& meeting, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  for (;;) {
    const std::string why = why_unanswered(meeting, until);
    if (why.empty()) return;
    if (Clock::now() >= until) throw nobody_answered(meeting, timeout, why);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Left to itself the store would listen on every interface.
int listening_socket(const Meeting& meeting) {
  const Addresses addresses = addresses_of(meeting);
  std::string why;
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
    why = std::strerror(errno);
    close(fd);
  }
  throw UsageError("rank 0 cannot listen at " + address_text(meeting) + ": " + why +
                   "; MASTER_ADDR must be an address of its host, and MASTER_PORT a free port");
}

// Polls after 50 us to 2 ms. c10d's own FileStore sleeps 10 ms between looks, which would be most of a start and of
// every exchange of evidence.
class PromptStore : public c10d::FileStore {
 public:
  PromptStore(std::string path, int workers) : FileStore(std::move(path), workers), workers_(workers) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<PromptStore>(path_, workers_); }
  std::vector<uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  int workers_;
};

std::vector<uint8_t> PromptStore::get(const std::string& key) {
  wait({key});
  return FileStore::get(key);
}

void PromptStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void PromptStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto begin = Clock::now();
  const auto in_time = [&] { return timeout == kNoTimeout || Clock::now() - begin < timeout; };
  for (auto pause = first_pause; !check(keys) && in_time(); pause = std::min(2 * pause, longest_pause))
    std::this_thread::sleep_for(pause);
  FileStore::wait(keys, std::chrono::milliseconds(1));  // throws in its own words where a key is still missing
}

c10::intrusive_ptr<c10d::Store> prefixed(const Meeting& meeting, c10::intrusive_ptr<c10d::Store> store) {
  return c10::make_intrusive<c10d::PrefixStore>("dpbench-" + meeting.nonce, std::move(store));
}

}  // namespace

c10::intrusive_ptr<c10d::Store> file_store(const std::string& file, int ranks) {
  return c10::make_intrusive<PromptStore>(file, ranks);
}

Meeting meeting_of(const std::string& address, const std::string& nonce) {
  if (address.empty()) return {};
  const size_t colon = address.rfind(':');
  Meeting meeting{.host = address.substr(0, colon), .port = 0, .nonce = nonce};
  const char* end = address.data() + address.size();
  const auto port = colon == std::string::npos ? address.data() : address.data() + colon + 1;
  const auto [stop, error] = std::from_chars(port, end, meeting.port);
  if (error != std::errc{} || stop != end || meeting.port < 1 || meeting.port > 65535 || meeting.host.empty())
    throw UsageError("DPBENCH_STORE='" + address + "' is not host:port");
  return meeting;
}

c10::intrusive_ptr<c10d::Store> join_meeting(const Meeting& meeting, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting.port);
  options.waitWorkers = false;
  options.timeout = timeout;
  wait_for_listener(meeting, timeout);
  try {
    return prefixed(meeting, c10::make_intrusive<c10d::TCPStore>(meeting.host, options));
  } catch (const c10::Error&) {
    throw nobody_answered(meeting, timeout, "what listens there is no store");
  }
}

c10::intrusive_ptr<c10d::Store> serve_meeting(const Meeting& meeting) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listening_socket(meeting);
  return prefixed(meeting, c10::make_intrusive<c10d::TCPStore>(meeting.host, options));
}

}  // namespace dpbench
