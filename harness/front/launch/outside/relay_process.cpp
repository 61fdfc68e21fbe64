#include "harness/front/launch/outside/relay_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <stdexcept>

#include "harness/front/launch/worker_group.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {

RelayProcess::RelayProcess(const std::string& worker_program, const Placement& placement, double timeout_s) {
  std::array<int, 2> pair{};
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0, "socketpair failed");
  socket_ = Fd(pair[0]);
  const Fd theirs(pair[1]);
  auto variables = variables_of(placement);
  variables["DPBENCH_TIMEOUT_S"] = std::to_string(std::max<int64_t>(1, std::llround(timeout_s)));
  child_ = spawn({.path = worker_program,
                  .arguments = {"--relay"},
                  .variables = variables,
                  .cpus = {},
                  .output = -1,
                  .errors = -1,
                  .channel = theirs.get()});
  register_child(child_.pid);
}

// Closes the socket, which makes the relay process exit. Kills the relay process if it has not exited after 1 s.
RelayProcess::~RelayProcess() {
  socket_.reset();
  pollfd ended{child_.pidfd.get(), POLLIN, 0};
  if (::poll(&ended, 1, 1000) != 1) ::kill(child_.pid, SIGKILL);
  ::waitpid(child_.pid, nullptr, 0);
}

void RelayProcess::send(int rank, const Json& message) {
  const std::string line =
      Json{{"to", rank}, {"message", message}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t wrote = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // the relay process is gone; the next receive() throws an error with the reason
    sent += static_cast<size_t>(wrote);
  }
}

std::vector<Json> RelayProcess::receive() {
  std::array<char, 65536> buffer;
  bool closed = false;
  for (ssize_t got; (got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) >= 0;) {
    closed = got == 0;
    if (closed) break;
    unread_.append(buffer.data(), static_cast<size_t>(got));
  }
  std::vector<Json> messages;
  size_t begin = 0;
  for (size_t end; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const Json line = parse_json(unread_.substr(begin, end - begin), "message of the relay");
    if (line.contains("lost")) {
      const std::string why = sanitised(line.at("lost").get<std::string>());
      if (line.at("usage").get<bool>()) throw UsageError(why);
      throw std::runtime_error(why);
    }
    if (line.contains("message")) messages.push_back(line.at("message"));
  }
  unread_.erase(0, begin);
  if (closed && messages.empty()) throw std::runtime_error("the relay to the other ranks ended");
  return messages;
}

}  // namespace dpbench
