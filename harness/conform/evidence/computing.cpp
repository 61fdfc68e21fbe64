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
  int depth;  // a thread stays marked until all of its nested Computing objects are destroyed; this is their number
};

std::mutex marked_mutex;
std::map<pthread_t, Marked> marked;
// CPU time of threads in periods in which they were marked and that have ended; cpu_ns() adds the current periods.
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
