// Starting a program as a supervised child: its own process group, no inherited descriptor but the ones given.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

struct Program {
  std::string path;
  std::vector<std::string> arguments;            // without the program itself
  std::map<std::string, std::string> variables;  // added to this process's own
  std::vector<int> cpus;                         // the cores it may use; empty: all of ours
  int output = -1, errors = -1;                  // descriptors for stdout and stderr; -1: /dev/null
  int channel = -1;                              // becomes descriptor 3
};

struct Child {
  pid_t pid = -1;
  Fd pidfd;  // readable once it has ended
};

// Throws UsageError when the program cannot be started. The main thread must call it and live as long as the child.
Child spawn(const Program& program);

// "exit code 3", "signal 9 (SIGKILL)"; of a status from waitpid.
std::string ending(int wait_status);

}  // namespace dpbench
