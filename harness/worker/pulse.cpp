#include "harness/worker/pulse.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "workloads/error.h"

namespace dpbench {

Pulse::Pulse(const std::string& file, int rank) {
  if (file.empty()) return;
  const int descriptor = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct stat info {};
  if (descriptor < 0 || fstat(descriptor, &info) != 0) throw UsageError("DPBENCH_PROGRESS='" + file + "' cannot be opened");
  bytes_ = static_cast<size_t>(info.st_size);
  if (bytes_ < sizeof(Progress) * static_cast<size_t>(rank + 1))
    throw UsageError("DPBENCH_PROGRESS='" + file + "' has no place for rank " + std::to_string(rank));
  mapping_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  check(mapping_ != MAP_FAILED, "cannot map " + file);
  mine_ = static_cast<Progress*>(mapping_) + rank;
}

void Pulse::follow(std::function<uint64_t()> collectives) {
  follower_ = std::jthread([this, collectives = std::move(collectives)](std::stop_token stop) {
    constexpr auto interval = std::chrono::milliseconds(50);
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    for (uint64_t known = 0; !wake.wait_for(lock, stop, interval, [] { return false; }) && !stop.stop_requested();) {
      const uint64_t now = collectives();
      mine_->beat.fetch_add(static_cast<int64_t>(now - known), std::memory_order_relaxed);
      mine_->collectives.store(static_cast<int64_t>(now), std::memory_order_relaxed);
      known = now;
    }
  });
}

Pulse::~Pulse() {
  follower_ = {};
  if (mapping_) munmap(mapping_, bytes_);
}

}  // namespace dpbench
