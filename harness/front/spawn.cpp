#include "harness/front/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>

#include "workloads/error.h"

extern char** environ;

namespace dpbench {
namespace {

constexpr int kChannel = 3;

class FileActions {
 public:
  explicit FileActions(const Program& program) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    connect(program.output, STDOUT_FILENO);
    connect(program.errors, STDERR_FILENO);
    if (program.channel >= 0) posix_spawn_file_actions_adddup2(&actions_, program.channel, kChannel);
    posix_spawn_file_actions_addclosefrom_np(&actions_, program.channel >= 0 ? kChannel + 1 : kChannel);
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  void connect(int from, int to) {
    if (from >= 0)
      posix_spawn_file_actions_adddup2(&actions_, from, to);
    else
      posix_spawn_file_actions_addopen(&actions_, to, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_t actions_;
};

// A process group of its own; signals as a fresh program expects them.
class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// The child inherits the affinity that this thread has while it is started.
class PinnedWhile {
 public:
  explicit PinnedWhile(const std::vector<int>& cpus) : pinned_(!cpus.empty()) {
    if (!pinned_) return;
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    for (const int cpu : cpus) CPU_SET(cpu, &chosen);
    sched_setaffinity(0, sizeof chosen, &chosen);
  }
  ~PinnedWhile() {
    if (pinned_) sched_setaffinity(0, sizeof before_, &before_);
  }
  PinnedWhile(const PinnedWhile&) = delete;
  PinnedWhile& operator=(const PinnedWhile&) = delete;

 private:
  bool pinned_;
  cpu_set_t before_;
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
  std::vector<std::string> words = {program.path};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> variables = environment_with(program.variables);
  const FileActions actions(program);
  const Attributes attributes;
  const PinnedWhile pinned(program.cpus);
  Child child;
  const int failed = ::posix_spawn(&child.pid, program.path.c_str(), actions.get(), attributes.get(),
                                   pointers_to(words).data(), pointers_to(variables).data());
  if (failed) throw UsageError("cannot start " + program.path + ": " + std::strerror(failed));
  child.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  check(static_cast<bool>(child.pidfd), "pidfd_open failed");
  return child;
}

std::string ending(int wait_status) {
  if (WIFEXITED(wait_status)) return "exit code " + std::to_string(WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name ? " (SIG" + std::string(name) + ")" : "");
}

}  // namespace dpbench
