#include "harness/micro/ceilings/tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "strategies/comm/base/route.h"

namespace dpbench::micro {
namespace {

constexpr size_t reply_bytes = 4;

void require(bool ok, const char* call) {
  if (!ok) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

// A TCP socket. A call that moves no data for 20 s fails, well before the timeout of the ranks that wait meanwhile.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    require(fd >= 0, "socket");
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(fd_); }

  int fd() const { return fd_; }
  void send_all(const std::vector<char>& data) const {
    for (size_t sent = 0; sent < data.size();) {
      const ssize_t more = send(fd_, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
      require(more > 0, "send");
      sent += static_cast<size_t>(more);
    }
  }
  void receive_all(std::vector<char>& data) const {
    for (size_t received = 0; received < data.size();) {
      const ssize_t more = recv(fd_, data.data() + received, data.size() - received, 0);
      require(more > 0, "recv");
      received += static_cast<size_t>(more);
    }
  }

 private:
  int fd_;
};

using Address = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Address address_of(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failed) throw std::runtime_error(gai_strerror(failed));
  return {found, &freeaddrinfo};
}

int new_socket(const addrinfo& address) { return socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// Listens on a free port of the address that Gloo uses.
class Listener {
 public:
  Listener() : host_(own_address()), address_(address_of(host_, "0")), socket_(new_socket(*address_)) {
    require(bind(socket_.fd(), address_->ai_addr, address_->ai_addrlen) == 0, "bind");
    require(listen(socket_.fd(), 1) == 0, "listen");
  }

  // Returns the address and the port as text.
  std::string place() const {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    auto* address = reinterpret_cast<sockaddr*>(&bound);
    char port[NI_MAXSERV];
    require(getsockname(socket_.fd(), address, &size) == 0, "getsockname");
    require(getnameinfo(address, size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) == 0, "getnameinfo");
    return host_ + " " + port;
  }
  int accepted() const { return accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC); }

 private:
  static std::string own_address() {
    const char* names = std::getenv("GLOO_SOCKET_IFNAME");
    if (!names) return address_towards_master();
    const std::string list = names;
    return address_of_interface(list.substr(0, list.find(',')));
  }

  std::string host_;
  Address address_;
  Socket socket_;
};

void answer(const Listener& listener, int64_t bytes) {
  const Socket peer(listener.accepted());
  std::vector<char> message(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < 1 + iterations_of(bytes); ++i) {
    peer.receive_all(message);
    peer.send_all(std::vector<char>(reply_bytes));
  }
}

double timed_trips(const std::string& place, int64_t bytes) {
  const size_t space = place.find(' ');
  if (space == place.npos) return 0;  // the other rank could not listen
  const Address address = address_of(place.substr(0, space), place.substr(space + 1));
  const Socket peer(new_socket(*address));
  require(connect(peer.fd(), address->ai_addr, address->ai_addrlen) == 0, "connect");
  const std::vector<char> message(static_cast<size_t>(bytes));
  std::vector<char> reply(reply_bytes);
  const auto trip = [&] {
    peer.send_all(message);
    peer.receive_all(reply);
  };
  trip();  // warm-up, because of TCP's slow start
  const int64_t trips = iterations_of(bytes);
  return seconds_of([&] {
           for (int64_t i = 0; i < trips; ++i) trip();
         }) /
         static_cast<double>(trips);
}

}  // namespace

double seconds_of_tcp_round_trip(Team& team, int from, int to, int64_t bytes) {
  static int connections = 0;  // equal on all ranks
  const std::string key = "tcp/" + std::to_string(connections++);
  if (team.rank() == from) return timed_trips(team.store().get_to_str(key), bytes);
  if (team.rank() != to) return 0;
  std::optional<Listener> listener;
  std::string place;
  try {
    place = listener.emplace().place();
  } catch (const std::exception&) {
    // This rank cannot listen. The empty place tells the other rank.
  }
  team.store().set(key, place);
  if (!place.empty()) answer(*listener, bytes);
  return 0;
}

}  // namespace dpbench::micro
