#include "workloads/base/runtime.h"

#include <atomic>

namespace dpbench {
namespace {

Runtime process_runtime = Runtime::fast;
std::atomic<int64_t> by_engine{0};
thread_local bool walking = false;

}  // namespace

Runtime runtime() { return process_runtime; }

void set_runtime(Runtime runtime) { process_runtime = runtime; }

OwnWalk::OwnWalk() : before_(walking) { walking = true; }

OwnWalk::~OwnWalk() { walking = before_; }

void count_own_node() {
  if (!walking) by_engine.fetch_add(1, std::memory_order_relaxed);
}

int64_t nodes_run_by_engine() { return by_engine.load(std::memory_order_relaxed); }

}  // namespace dpbench
