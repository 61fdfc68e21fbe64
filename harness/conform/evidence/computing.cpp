#include "harness/conform/evidence/computing.h"

#include <pthread.h>

#include <ctime>
#include <map>
#include <mutex>

namespace dpbench {
namespace {

int64_t read_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

struct Marked {
  clockid_t clock;
  int64_t begin_ns;
  int depth;  // number of marks of the thread: they may be nested
};

std::mutex marked_mutex;
std::map<pthread_t, Marked> marked;
int64_t ended_ns = 0;  // spent under marks that have ended

}  // namespace

Computing::Computing() {
  const std::lock_guard lock(marked_mutex);
  const auto [found, is_new] = marked.try_emplace(::pthread_self());
  if (is_new) {
    ::pthread_getcpuclockid(::pthread_self(), &found->second.clock);
    found->second = {.clock = found->second.clock, .begin_ns = read_ns(found->second.clock), .depth = 0};
  }
  ++found->second.depth;
}

Computing::~Computing() {
  const std::lock_guard lock(marked_mutex);
  const auto found = marked.find(::pthread_self());
  if (--found->second.depth > 0) return;
  ended_ns += read_ns(found->second.clock) - found->second.begin_ns;
  marked.erase(found);
}

int64_t Computing::cpu_ns() {
  const std::lock_guard lock(marked_mutex);
  int64_t total = ended_ns;
  for (const auto& [thread, mark] : marked) total += read_ns(mark.clock) - mark.begin_ns;
  return total;
}

}  // namespace dpbench
