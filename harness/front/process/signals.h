// INT, TERM and HUP as something that can be polled for, and the states of a process that outlives its terminal.
#pragma once

#include "harness/front/process/fd.h"

namespace dpbench {

class Signals {
 public:
  // Blocks them in this thread; children start with none blocked.
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return fd_.get(); }
  // The next one that has come, 0 if none has. Never waits.
  int take() const;

 private:
  Fd fd_;
};

// Before anything else: descriptors 0 to 2 exist, and a closed stdout or pipe or a full disk is an error instead of a
// death.
void prepare_process();

}  // namespace dpbench
