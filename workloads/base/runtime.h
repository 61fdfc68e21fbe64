// The runtime of this process (LibTorch's code or dpbench's own), and the threads on which dpbench runs backward
// passes.
#pragma once

#include "workloads/base/kinds.h"

namespace dpbench {

Runtime runtime();
// Sets the runtime of this process. Call it before any layer runs. Processes that do not call it use `fast`.
void set_runtime(Runtime runtime);

// While an object of this class exists, its thread is marked as one on which dpbench::backward() walks an autograd
// graph.
class OwnWalk {
 public:
  OwnWalk();
  ~OwnWalk();
  OwnWalk(const OwnWalk&) = delete;
  OwnWalk& operator=(const OwnWalk&) = delete;

 private:
  bool before_;
};

// True if dpbench::backward() walks an autograd graph on this thread.
bool on_own_walk();
// Name of the autograd node in which dpbench walks a whole graph while torch's engine runs that single node.
inline constexpr const char* walked_node = "dpbench::Walked";

}  // namespace dpbench
