// A process beside us that ends what our ranks have started when we are killed and cannot do it ourselves: ranks die with us
// by themselves, their children do not.
#pragma once

#include <sys/types.h>

#include <string>

#include "harness/front/fd.h"

namespace dpbench {

class Keeper {
 public:
  // mark: NAME=VALUE that only the processes to be ended have in their environment.
  explicit Keeper(const std::string& mark);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  pid_t pid() const { return pid_; }

 private:
  Fd line_;  // its end is ours
  pid_t pid_ = -1;
};

}  // namespace dpbench
