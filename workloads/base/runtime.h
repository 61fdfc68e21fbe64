// The runtime of this process, and who ran its backward passes.
#pragma once

#include <cstdint>

#include "workloads/base/kinds.h"

namespace dpbench {

Runtime runtime();
// Sets the runtime of this process. Call it before any layer runs. Processes that do not call it use `fast`.
void set_runtime(Runtime runtime);

// Marks that dpbench::backward() walks a graph on this thread, as long as it exists.
class OwnWalk {
 public:
  OwnWalk();
  ~OwnWalk();
  OwnWalk(const OwnWalk&) = delete;
  OwnWalk& operator=(const OwnWalk&) = delete;

 private:
  bool before_;
};

// Each of dpbench's own autograd nodes calls this when it runs.
void count_own_node();
// Returns the number of own nodes that torch's engine ran, because a strategy called loss.backward() instead of
// dpbench::backward(loss).
int64_t nodes_run_by_engine();

}  // namespace dpbench
