#include "harness/front/process/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t max_bytes = 4 << 20;

std::array<Fd, 2> pipe_pair() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe failed");
  return {Fd(ends[0]), Fd(ends[1])};
}

}  // namespace

Captured run_and_capture(const Program& program_without_output, double limit_s) {
  auto [ours, theirs] = pipe_pair();
  Program program = program_without_output;
  program.output = theirs.get();
  const Child child = spawn(program);
  theirs.reset();
  Captured captured;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(limit_s * 1000));
  std::array<char, 65536> buffer;
  while (captured.output.size() < max_bytes) {
    pollfd polled{ours.get(), POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    const int ready = left > 0 ? ::poll(&polled, 1, static_cast<int>(std::min<int64_t>(left, INT_MAX))) : 0;
    captured.late = ready == 0;
    if (ready <= 0) break;
    const ssize_t got = ::read(ours.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    captured.output.append(buffer.data(), static_cast<size_t>(got));
  }
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  if (::poll(&ended, 1, 2000) <= 0 || captured.output.size() >= max_bytes) ::kill(-child.pid, SIGKILL);
  ::waitpid(child.pid, &captured.status, 0);
  return captured;
}

}  // namespace dpbench
