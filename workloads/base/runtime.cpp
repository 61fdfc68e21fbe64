#include "workloads/base/runtime.h"

namespace dpbench {
namespace {

Runtime process_runtime = Runtime::fast;
thread_local bool walking = false;

}  // namespace

Runtime runtime() { return process_runtime; }

void set_runtime(Runtime runtime) { process_runtime = runtime; }

OwnWalk::OwnWalk() : before_(walking) { walking = true; }

OwnWalk::~OwnWalk() { walking = before_; }

bool on_own_walk() { return walking; }

}  // namespace dpbench
