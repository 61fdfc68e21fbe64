// A helper process that cleans up if dpbench is killed. The kernel then kills the ranks, and the helper kills the
// ranks' children, which would otherwise survive.
#pragma once

#include <sys/types.h>

#include <string>

#include "harness/front/process/fd.h"

namespace dpbench {

class OrphanReaper {
 public:
  // `mark` is an environment setting NAME=VALUE by which the helper finds the processes to kill. No other process may
  // have this setting.
  explicit OrphanReaper(const std::string& mark);
  ~OrphanReaper();
  OrphanReaper(const OrphanReaper&) = delete;
  OrphanReaper& operator=(const OrphanReaper&) = delete;

  pid_t pid() const { return pid_; }

 private:
  Fd line_;  // write end of the pipe to the helper, which acts when this end closes
  pid_t pid_ = -1;
};

}  // namespace dpbench
