#include "harness/worker/measure/engine_watch.h"

#include <atomic>
#include <memory>
#include <string_view>

#include "workloads/base/runtime.h"

namespace dpbench {
namespace {

std::atomic<int64_t> by_engine{0};

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& node) {
  if (!on_own_walk() && std::string_view(node.name()) != walked_node) by_engine.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

}  // namespace

EngineWatch::EngineWatch() {
  by_engine = 0;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

EngineWatch::~EngineWatch() { at::removeCallback(handle_); }

int64_t EngineWatch::nodes() const { return by_engine.load(std::memory_order_relaxed); }

}  // namespace dpbench
