#include "harness/front/process/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "workloads/base/cores.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int channel_descriptor = 3;

// Sets up the child process between fork and exec. run() returns only on failure; the result is the errno.
class ChildSetup {
 public:
  ChildSetup(const Program& program, char* const* argv, char* const* variables)
      : program_(program), argv_(argv), variables_(variables), parent_(::getpid()) {}

  int run() const {
    if (::setpgid(0, 0) != 0) return errno;
    // Kill the child when its parent dies. The setting survives exec, so the child cannot outlive this process even
    // while it is still loading its libraries.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
    if (::getppid() != parent_) ::_exit(127);
    if (!connect(-1, STDIN_FILENO, O_RDONLY) || !connect(program_.output, STDOUT_FILENO, O_WRONLY) ||
        !connect(program_.errors, STDERR_FILENO, O_WRONLY) || !pass_channel())
      return errno;
    reset_signals();
    ::execve(program_.path.c_str(), argv_, variables_);
    return errno;
  }

 private:
  static bool connect(int from, int to, int mode) {
    if (from < 0) from = ::open("/dev/null", mode | O_CLOEXEC);
    return from >= 0 && ::dup2(from, to) == to;
  }

  // Passes the child's channel as descriptor 3, which stays open across exec. All higher descriptors are closed.
  bool pass_channel() const {
    if (program_.channel == channel_descriptor && ::fcntl(channel_descriptor, F_SETFD, 0) != 0) return false;
    if (program_.channel >= 0 && ::dup2(program_.channel, channel_descriptor) != channel_descriptor) return false;
    const int first = program_.channel >= 0 ? channel_descriptor + 1 : channel_descriptor;
    if (::close_range(first, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return true;
    for (int fd = first; fd < ::sysconf(_SC_OPEN_MAX); ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return true;
  }

  static void reset_signals() {
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }

  const Program& program_;
  char* const* argv_;
  char* const* variables_;
  pid_t parent_;
};

// A pipe that reports exec errors: a successful exec closes it, and a failing child writes its errno into it.
struct ExecErrorPipe {
  Fd reader, writer;

  ExecErrorPipe() {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe failed");
    reader = Fd(ends[0]);
    const Fd low(ends[1]);
    // Give the pipe's write end a number above 3, because the child may replace the descriptors 0 to 3 before exec.
    writer = Fd(::fcntl(low.get(), F_DUPFD_CLOEXEC, channel_descriptor + 1));
    check(static_cast<bool>(writer), "fcntl failed");
  }
};

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!variables.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Child spawn(const Program& program) {
  std::vector<std::string> argv = {program.path};
  argv.insert(argv.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> variables = environment_with(program.variables);
  const std::vector<char*> argv_pointers = pointers_to(argv), variable_pointers = pointers_to(variables);
  const ChildSetup setup(program, argv_pointers.data(), variable_pointers.data());
  const OnCores pinned(program.cpus);
  ExecErrorPipe error_pipe;
  Child child;
  child.pid = ::fork();
  check(child.pid >= 0, "fork failed");
  if (child.pid == 0) {
    const int error = setup.run();
    [[maybe_unused]] const auto sent = ::write(error_pipe.writer.get(), &error, sizeof error);
    ::_exit(127);
  }
  error_pipe.writer = Fd();
  int failed = 0;
  while (::read(error_pipe.reader.get(), &failed, sizeof failed) < 0 && errno == EINTR) {
  }
  if (failed) {
    ::waitpid(child.pid, nullptr, 0);
    throw UsageError("cannot start " + program.path + ": " + std::strerror(failed));
  }
  child.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  check(static_cast<bool>(child.pidfd), "pidfd_open failed");
  return child;
}

std::string describe_exit(int wait_status) {
  if (WIFEXITED(wait_status)) return "exit code " + std::to_string(WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name ? " (SIG" + std::string(name) + ")" : "");
}

}  // namespace dpbench
