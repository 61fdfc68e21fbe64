#include "harness/worker/rank/core_use.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "harness/report/base/clock.h"

namespace dpbench {
namespace {

int64_t involuntary_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

struct Close {
  void operator()(DIR* directory) const { ::closedir(directory); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

CoreUse::CoreUse()
    : wall_ns_(clock_ns(CLOCK_MONOTONIC)),
      cpu_ns_(clock_ns(CLOCK_PROCESS_CPUTIME_ID)),
      switches_(involuntary_switches()),
      threads_(threads()) {}

std::map<int, CoreUse::Thread> CoreUse::threads() {
  std::map<int, Thread> found;
  const std::unique_ptr<DIR, Close> tasks(::opendir("/proc/self/task"));
  while (const dirent* entry = tasks ? ::readdir(tasks.get()) : nullptr) {
    const std::string path = std::string("/proc/self/task/") + entry->d_name + "/schedstat";
    const std::unique_ptr<std::FILE, Close> file(entry->d_name[0] == '.' ? nullptr : std::fopen(path.c_str(), "re"));
    Thread thread;
    if (file && std::fscanf(file.get(), "%ld %ld", &thread.running_ns, &thread.queued_ns) == 2)
      found[std::atoi(entry->d_name)] = thread;
  }
  return found;
}

CoreUse::Spent CoreUse::spent() const {
  Spent spent{.wall_ns = clock_ns(CLOCK_MONOTONIC) - wall_ns_,
              .cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns_,
              .switches = involuntary_switches() - switches_};
  for (const auto& [id, now] : threads()) {
    const auto known = threads_.find(id);
    const Thread before = known == threads_.end() ? Thread{} : known->second;
    const int64_t running = now.running_ns - before.running_ns, queued = now.queued_ns - before.queued_ns;
    if (id == ::gettid() || 4 * (running + queued) >= spent.wall_ns)
      spent.queue_ns = std::max(spent.queue_ns.value_or(0), queued);
  }
  return spent;
}

}  // namespace dpbench
