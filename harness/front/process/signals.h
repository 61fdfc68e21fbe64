// Makes SIGINT, SIGTERM and SIGHUP pollable, and protects dpbench against closed standard streams.
#pragma once

#include "harness/front/process/fd.h"

namespace dpbench {

class Signals {
 public:
  // Blocks SIGINT, SIGTERM and SIGHUP in this thread. Spawned children start with no signal blocked.
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return fd_.get(); }
  // Returns the next pending signal, or 0 if there is none. Never blocks.
  int take() const;

 private:
  Fd fd_;
};

// Prepares this process; must be called first in main(). Afterwards descriptors 0 to 2 are open. A closed stdout, a
// closed pipe or a file size limit causes a write error instead of a fatal signal. Also raises the limit on open files,
// and makes this process adopt the orphans of dead ranks.
void prepare_process();

}  // namespace dpbench
