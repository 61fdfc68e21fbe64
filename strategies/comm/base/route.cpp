#include "strategies/comm/base/route.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), "1", &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

// Returns the local address of the route to the target. Connecting a datagram socket sends nothing; it only picks the
// route, and getsockname() then returns the source address.
std::string source_address(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  const bool routed = connect(fd, target.ai_addr, target.ai_addrlen) == 0 && getsockname(fd, address, &size) == 0;
  close(fd);
  char text[NI_MAXHOST];
  if (!routed || getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

struct Interface {
  std::string name, address;
};

// Returns the first address of this host, with its interface, for which holds() is true; empty texts if there is none.
template <class Holds>
Interface interface_where(const Holds& holds) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    const int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(at->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const Interface found{at->ifa_name, text};
    if (holds(found)) return found;
  }
  return {};
}

}  // namespace

std::string address_towards_master() {
  const char* master = std::getenv("MASTER_ADDR");
  if (!master)
    throw UsageError(
        "MASTER_ADDR is not set, and ranks on several hosts need it. Set it, or set GLOO_SOCKET_IFNAME to an "
        "interface.");
  const Addresses targets = resolve(master);
  for (const addrinfo* target = targets.get(); target; target = target->ai_next)
    if (auto address = source_address(*target); !address.empty()) return address;
  throw UsageError(std::string("MASTER_ADDR=") + master + " cannot be reached: no route from this host");
}

std::string interface_of(const std::string& address) {
  return interface_where([&](const Interface& one) { return one.address == address; }).name;
}

std::string address_of_interface(const std::string& name) {
  return interface_where([&](const Interface& one) { return one.name == name; }).address;
}

}  // namespace dpbench
