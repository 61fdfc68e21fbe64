#include "harness/front/process/orphan_reaper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int max_rounds = 200, round_milliseconds = 10;

bool has_in_environment(const std::filesystem::path& process, const std::string& mark) {
  std::ifstream file(process / "environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry == mark) return true;
  return false;
}

// Kills every process that has `mark` in its environment. Returns true if it found one. Zombies are not counted,
// because they have no environment.
bool kill_marked(const std::string& mark) {
  bool found = false;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || !has_in_environment(entry.path(), mark)) continue;
    found = true;
    ::kill(static_cast<pid_t>(std::stol(name)), SIGKILL);
  }
  return found;
}

// Runs in the helper process: waits until dpbench or its OrphanReaper ends. Kills the marked processes
// unless the OrphanReaper's destructor has sent a byte, which shows that dpbench was not killed.
[[noreturn]] void wait_and_reap(int line, const std::string& mark) {
  ::setsid();  // leave the terminal's session: its Ctrl-C and hang-up must not end this helper process
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  // Close all inherited descriptors except the pipe from dpbench; otherwise the helper would keep dpbench's locks held
  // and its other pipes open.
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) ::dup2(nothing, standard);
  ::close_range(3, static_cast<unsigned>(line) - 1, 0);
  ::close_range(static_cast<unsigned>(line) + 1, ~0u, 0);
  char good_bye = 0;
  if (::read(line, &good_bye, 1) == 1) ::_exit(0);
  for (int round = 0; round < max_rounds && kill_marked(mark); ++round) ::poll(nullptr, 0, round_milliseconds);
  ::_exit(0);
}

}  // namespace

OrphanReaper::OrphanReaper(const std::string& mark) {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe failed");
  const Fd theirs(ends[0]);
  line_ = Fd(ends[1]);
  pid_ = ::fork();
  check(pid_ >= 0, "fork failed");
  if (pid_ == 0) {
    ::close(ends[1]);
    wait_and_reap(ends[0], mark);
  }
}

OrphanReaper::~OrphanReaper() {
  [[maybe_unused]] const auto sent = ::write(line_.get(), "q", 1);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace dpbench
