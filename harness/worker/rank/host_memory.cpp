#include "harness/worker/rank/host_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "harness/worker/rank/device_memory.h"
#include "harness/worker/rank/small_blocks.h"

namespace dpbench {
namespace {

int64_t initial_bytes = 0, leftover_bytes = 0;
// the case's peak when an UncountedMemory was last created; 0: none was created in this case
int64_t earlier_peak_bytes = 0;

int64_t status_bytes(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::stoll(line.substr(std::strlen(key))) * 1024;
  return 0;
}

int64_t held_bytes() { return status_bytes("RssAnon:") + status_bytes("RssShmem:"); }

void restart_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace

void retain_freed_memory(Runtime runtime) {
  for (const char* chosen : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"})
    if (std::getenv(chosen)) return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // malloc uses mmap for blocks from this size on; glibc accepts no larger value
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
  if (runtime == Runtime::fast) cache_small_blocks();
}

void record_initial_memory() {
  malloc_trim(0);
  initial_bytes = held_bytes();
}

void reset_peak_memory() {
  malloc_trim(0);
  earlier_peak_bytes = 0;
  leftover_bytes = std::max<int64_t>(held_bytes() - initial_bytes, 0);
  restart_peak();
  if (DevicePeak* device = device_peak()) device->reset();
}

int64_t peak_memory_bytes() { return std::max(earlier_peak_bytes, status_bytes("VmHWM:")); }

UncountedMemory::UncountedMemory() : held_before_(held_bytes()) {
  earlier_peak_bytes = peak_memory_bytes();
  if (DevicePeak* device = device_peak()) device->pause();
}

UncountedMemory::~UncountedMemory() {
  if (DevicePeak* device = device_peak()) device->resume();
  if (status_bytes("VmHWM:") <= earlier_peak_bytes) return;
  constexpr int64_t negligible = 1 << 20;
  if (held_bytes() > held_before_ + negligible) malloc_trim(0);
  restart_peak();
}

void record_peaks(RankRecord& record) {
  record.peak_rss_bytes = peak_memory_bytes();
  // The peak of this case as if it were the first of the process: without file pages (LibTorch code loaded by earlier
  // cases) and without memory that earlier cases left allocated.
  record.own_rss_bytes = std::max<int64_t>(record.peak_rss_bytes - status_bytes("RssFile:") - leftover_bytes, 0);
  const DevicePeak* device = device_peak();
  const DeviceMemory peak = device ? device->peak() : DeviceMemory{};
  record.peak_device_bytes = peak.allocated, record.peak_device_reserved_bytes = peak.reserved;
}

}  // namespace dpbench
