// What a worker is told by its environment (harness/report/record/protocol.h lists the names), checked before any
// socket is opened.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/worker/rank/meeting.h"
#include "workloads/base/kinds.h"

namespace dpbench {

struct Variables {
  int rank = 0, world = 1, local_rank = 0, local_world = 1;
  int channel = -1;  // descriptor of the front's socket
  int threads = 1;
  std::string run_dir, group, nonce, backend, progress_file;
  Device device = Device::cpu;
  Meeting meeting;      // where the ranks of an outside launch meet; none: in a file of run_dir
  bool serves = false;  // a relay: serves that meeting
  std::vector<std::string> plugins;
  std::vector<int> cores;  // of all ranks of this host; empty: nobody has a share of his own
  std::chrono::milliseconds timeout{30000};
};

// Throws UsageError naming the variable and its value.
Variables read_variables();

}  // namespace dpbench
