#include "harness/worker/meeting.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "workloads/error.h"

namespace dpbench {
namespace {

using FoundAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string address_text(const Meeting& meeting) { return meeting.host + ":" + std::to_string(meeting.port); }

FoundAddresses addresses_of(const Meeting& meeting) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(meeting.host.c_str(), std::to_string(meeting.port).c_str(), &hints, &found);
  if (failed) throw UsageError("MASTER_ADDR '" + meeting.host + "': " + gai_strerror(failed));
  return {found, &freeaddrinfo};
}

// Left to itself the store would listen on every interface.
int listening_socket(const Meeting& meeting) {
  const FoundAddresses addresses = addresses_of(meeting);
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

c10::intrusive_ptr<c10d::Store> prefixed(const Meeting& meeting, c10::intrusive_ptr<c10d::Store> store) {
  return c10::make_intrusive<c10d::PrefixStore>("dpbench-" + meeting.nonce, std::move(store));
}

}  // namespace

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
  try {
    return prefixed(meeting, c10::make_intrusive<c10d::TCPStore>(meeting.host, options));
  } catch (const c10::Error&) {
    throw std::runtime_error("nobody answered at " + address_text(meeting) + " within " +
                             std::to_string(timeout.count() / 1000) + " s: is rank 0 there?");
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
