#include "harness/worker/rank/channel.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workloads/base/error.h"

namespace dpbench {

Channel::Channel(int descriptor) : descriptor_(descriptor) {
  if (fcntl(descriptor_, F_SETFD, FD_CLOEXEC) != 0)
    throw UsageError("DPBENCH_FD=" + std::to_string(descriptor) + " is not an open descriptor");
}

std::optional<Json> Channel::receive() {
  constexpr size_t longest = 1 << 20;
  for (;;) {
    if (const size_t end = pending_.find('\n'); end != std::string::npos) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return parse_json(line, "a command from the front");
    }
    check(pending_.size() < longest, "a command from the front is longer than 1 MiB");
    char bytes[65536];
    const ssize_t got = read(descriptor_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    pending_.append(bytes, static_cast<size_t>(got));
  }
}

void Channel::send(const Json& event) {
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t wrote = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    check(wrote > 0, std::string("cannot send to the front: ") + std::strerror(errno));
    sent += static_cast<size_t>(wrote);
  }
}

}  // namespace dpbench
