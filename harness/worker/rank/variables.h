// A worker's environment variables (listed in harness/report/record/protocol.h), validated before any socket is opened.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/worker/rank/rendezvous.h"

namespace dpbench {

struct Variables : ProcessSettings {
  int rank = 0, world = 1, local_rank = 0, local_world = 1;
  int channel = -1;  // descriptor of the socket to the front (the dpbench process)
  std::string run_dir, group, nonce, progress_file;
  Rendezvous rendezvous;  // rendezvous address under an external launcher; empty: the ranks use a file in run_dir
  bool serves = false;    // true for a relay process that serves the rendezvous store
  std::vector<std::string> plugins;
  std::vector<int> cores;  // cores of all ranks on this host; empty: ranks are not pinned to separate cores
  std::chrono::milliseconds timeout{30000};
};

// Reads the worker's environment variables. Throws a UsageError that names an invalid variable and its value.
Variables read_variables();

}  // namespace dpbench
