#include "harness/conform/evidence/computing.h"

#include <pthread.h>

#include <map>
#include <mutex>

#include "harness/report/base/clock.h"

namespace dpbench {
namespace {

struct Marked {
  clockid_t clock;
  int64_t begin_ns;
  int depth;  // number of the thread's Computing objects, which may be nested; at 0 the thread is no longer marked
};

std::mutex marked_mutex;
std::map<pthread_t, Marked> marked;
// CPU time that threads spent while marked, up to the end of their mark. cpu_ns() adds the time of threads that are
// still marked.
int64_t ended_ns = 0;

}  // namespace

Computing::Computing() {
  clockid_t clock{};
  ::pthread_getcpuclockid(::pthread_self(), &clock);
  const std::lock_guard lock(marked_mutex);
  const auto [found, is_new] = marked.try_emplace(::pthread_self(), Marked{clock, clock_ns(clock), 0});
  ++found->second.depth;
}

Computing::~Computing() {
  const std::lock_guard lock(marked_mutex);
  const auto found = marked.find(::pthread_self());
  if (--found->second.depth > 0) return;
  ended_ns += clock_ns(found->second.clock) - found->second.begin_ns;
  marked.erase(found);
}

int64_t Computing::cpu_ns() {
  const std::lock_guard lock(marked_mutex);
  int64_t total = ended_ns;
  for (const auto& [thread, mark] : marked) total += clock_ns(mark.clock) - mark.begin_ns;
  return total;
}

}  // namespace dpbench
