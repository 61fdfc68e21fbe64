// Starts a program as a supervised child process. The child has its own process group and inherits only the descriptors
// passed to it.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"

namespace dpbench {

struct Program {
  std::string path;
  std::vector<std::string> arguments;            // arguments without the program name
  std::map<std::string, std::string> variables;  // environment variables added to those of this process
  std::vector<int> cpus;                         // cores that the child may use; empty: all cores of this process
  int output = -1, errors = -1;                  // the child's stdout and stderr descriptors; -1: /dev/null
  int channel = -1;                              // descriptor that the child gets as descriptor 3; -1: none
};

struct Child {
  pid_t pid = -1;
  Fd pidfd;  // descriptor that becomes readable when the child has ended
};

// Starts a child process. Throws UsageError if the program cannot be started. The calling thread must live as long as
// the child: the kernel kills the child when that thread exits.
Child spawn(const Program& program);

// Describes a status from waitpid, for example "exit code 3" or "signal 9 (SIGKILL)".
std::string describe_exit(int wait_status);

}  // namespace dpbench
