// Helper process that kills the ranks' children after this process was killed. The ranks die with their parent; their
// children do not.
#pragma once

#include <sys/types.h>

#include <string>

#include "harness/front/process/fd.h"

namespace dpbench {

class OrphanReaper {
 public:
  // `mark` is a NAME=VALUE that only the processes to kill have in their environment.
  explicit OrphanReaper(const std::string& mark);
  ~OrphanReaper();
  OrphanReaper(const OrphanReaper&) = delete;
  OrphanReaper& operator=(const OrphanReaper&) = delete;

  pid_t pid() const { return pid_; }

 private:
  Fd line_;  // pipe to the helper; the helper acts when this end closes
  pid_t pid_ = -1;
};

}  // namespace dpbench
