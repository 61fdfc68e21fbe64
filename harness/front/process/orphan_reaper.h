// A helper process that kills the children of our ranks after this process was killed. The ranks die with their parent,
// their children do not.
#pragma once

#include <sys/types.h>

#include <string>

#include "harness/front/process/fd.h"

namespace dpbench {

class OrphanReaper {
 public:
  // mark: NAME=VALUE that only the processes to be ended have in their environment.
  explicit OrphanReaper(const std::string& mark);
  ~OrphanReaper();
  OrphanReaper(const OrphanReaper&) = delete;
  OrphanReaper& operator=(const OrphanReaper&) = delete;

  pid_t pid() const { return pid_; }

 private:
  Fd line_;  // its end is ours
  pid_t pid_ = -1;
};

}  // namespace dpbench
