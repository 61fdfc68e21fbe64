// Starts a program as a supervised child: in its own process group, with no inherited descriptors except those passed.
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
  std::vector<int> cpus;                         // cores it may use; empty: all cores of this process
  int output = -1, errors = -1;                  // descriptors for stdout and stderr; -1: /dev/null
  int channel = -1;                              // becomes descriptor 3
};

struct Child {
  pid_t pid = -1;
  Fd pidfd;  // readable once the child has ended
};

// Throws UsageError if the program cannot be started. Must be called by a thread that lives as long as the child.
Child spawn(const Program& program);

// Returns for example "exit code 3" or "signal 9 (SIGKILL)" for a status from waitpid.
std::string describe_exit(int wait_status);

}  // namespace dpbench
