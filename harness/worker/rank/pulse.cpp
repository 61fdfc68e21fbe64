#include "harness/worker/rank/pulse.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <stop_token>

#include "workloads/base/error.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

// Adds a text and a separator to a hash. Without the separator, "ab" + "c" would equal "a" + "bc".
uint64_t mixed(uint64_t hash, std::string_view text) { return fnv1a("\xff", fnv1a(text, hash)); }

}  // namespace

Pulse::Pulse(const std::string& file, int rank, int world) {
  if (file.empty()) return;
  const int descriptor = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct stat info{};
  if (descriptor < 0 || fstat(descriptor, &info) != 0)
    throw UsageError("DPBENCH_PROGRESS='" + file + "' cannot be opened");
  bytes_ = static_cast<size_t>(info.st_size);
  if (bytes_ < sizeof(Progress) * static_cast<size_t>(rank + 1))
    throw UsageError("DPBENCH_PROGRESS='" + file + "' is too small for rank " + std::to_string(rank));
  mapping_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  check(mapping_ != MAP_FAILED, "cannot map " + file);
  progress_ = static_cast<Progress*>(mapping_) + rank;
  const auto ranks = static_cast<size_t>(world);
  // A heartbeat file created by an older dpbench has no log of collective calls; log_ then still points to unused_log_.
  if (bytes_ >= ranks * (sizeof(Progress) + sizeof(CallLog)))
    log_ = reinterpret_cast<CallLog*>(static_cast<Progress*>(mapping_) + ranks) + rank;
}

void Pulse::follow(std::function<uint64_t()> collectives, std::function<int64_t()> computed_ns) {
  follower_ = std::jthread([this, collectives = std::move(collectives),
                            computed_ns = std::move(computed_ns)](const std::stop_token& stop) {
    constexpr auto interval = std::chrono::milliseconds(50);
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    int64_t computed = computed_ns();
    for (uint64_t known = 0; !wake.wait_for(lock, stop, interval, [] { return false; }) && !stop.stop_requested();) {
      if (const int64_t ns = computed_ns(); ns > computed) computed = ns, beat();
      const uint64_t now = collectives ? collectives() : 0;
      progress_->beat.fetch_add(static_cast<int64_t>(now - known), std::memory_order_relaxed);
      progress_->collectives.store(static_cast<int64_t>(now), std::memory_order_relaxed);
      known = now;
    }
  });
}

// Writes a collective call to this rank's log, which other processes may read at the same time. Number 0 marks an entry
// as incomplete; the memory orders keep the entry's data after the 0 and before the final number.
void Pulse::note_call(const StartedCall& call) {
  const std::lock_guard lock(calls_mutex_);
  const uint64_t group = call.group.empty() ? 0 : fnv1a(call.group);
  CallDigest& calls = calls_[group];
  ++calls.count;
  calls.hash = mixed(calls.hash, call.text);
  CallSlot& slot = log_->slots[logged_++ % log_->slots.size()];
  slot.number.store(0, std::memory_order_relaxed);
  slot.group.store(group, std::memory_order_release);
  slot.hash.store(calls.hash, std::memory_order_release);
  store_text(slot.text, call.text);
  slot.number.store(static_cast<int64_t>(call.number), std::memory_order_release);
}

std::map<uint64_t, CallDigest> Pulse::calls() const {
  const std::lock_guard lock(calls_mutex_);
  return calls_;
}

void Pulse::forget_calls() {
  const std::lock_guard lock(calls_mutex_);
  for (auto& [group, calls] : calls_) calls = {};
}

Pulse::~Pulse() {
  follower_ = {};
  if (mapping_) munmap(mapping_, bytes_);
}

}  // namespace dpbench
