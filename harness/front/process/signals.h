// Pollable INT, TERM and HUP, and the process-wide settings that make dpbench robust against closed streams.
#pragma once

#include "harness/front/process/fd.h"

namespace dpbench {

class Signals {
 public:
  // Blocks these signals in this thread; spawned children start with none blocked.
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return fd_.get(); }
  // Returns the next pending signal, 0 if there is none. Never blocks.
  int take() const;

 private:
  Fd fd_;
};

// Must be called first in main(). Afterwards descriptors 0 to 2 are open, and a closed stdout or pipe or a file size
// limit causes an error instead of a fatal signal.
void prepare_process();

}  // namespace dpbench
