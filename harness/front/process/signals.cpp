#include "harness/front/process/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "workloads/base/error.h"

namespace dpbench {

Signals::Signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, signal);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  fd_ = Fd(::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
  check(static_cast<bool>(fd_), "signalfd failed");
}

int Signals::take() const {
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

void prepare_process() {
  // Reopen closed standard descriptors; otherwise the next file opened would get their number. A closed stdout is
  // reopened read-only, so that printing fails.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    // Raise the soft limit on open files to at most 8192: 1024 ranks need 4 files each (run/prepare.cpp).
    files.rlim_cur = std::max(files.rlim_cur, std::min<rlim_t>(files.rlim_max, 8192));
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // adopt the orphans of dead ranks, so that this process can kill them
}

}  // namespace dpbench
