// The runtime of this process (LibTorch's code or dpbench's own), and the threads on which dpbench runs backward
// passes.
#pragma once

#include "workloads/base/kinds.h"

namespace dpbench {

Runtime runtime();
// Sets the runtime of this process. Call it before any layer runs. Processes that do not call it use `fast`.
void set_runtime(Runtime runtime);

// While an object of this class exists, on_own_walk() is true in its thread. dpbench::backward() creates one while it
// walks an autograd graph by itself instead of calling torch's engine.
class OwnWalk {
 public:
  OwnWalk();
  ~OwnWalk();
  OwnWalk(const OwnWalk&) = delete;
  OwnWalk& operator=(const OwnWalk&) = delete;

 private:
  bool before_;
};

// Returns true if dpbench::backward() is walking an autograd graph on this thread, in place of torch's engine.
bool on_own_walk();
// Name of an autograd node of dpbench. Torch's engine runs this single node, and the node walks a whole graph by
// itself.
inline constexpr const char* walked_node = "dpbench::Walked";

}  // namespace dpbench
