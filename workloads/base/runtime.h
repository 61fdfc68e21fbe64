// The runtime of this process, and who runs its backward passes.
#pragma once

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

// True if dpbench::backward() walks a graph on this thread.
bool on_own_walk();
// Name of the autograd node that walks a whole graph inside torch's engine.
inline constexpr const char* walked_node = "dpbench::Walked";

}  // namespace dpbench
