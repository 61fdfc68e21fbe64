#include "harness/worker/rank/device_memory.h"

#include <algorithm>
#include <optional>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace dpbench {
namespace {

constexpr auto aggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

DeviceMemory larger(const DeviceMemory& a, const DeviceMemory& b) {
  return {std::max(a.allocated, b.allocated), std::max(a.reserved, b.reserved)};
}

int gpus_of_this_process() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
}

}  // namespace

DeviceMemory DevicePeak::since_restart() const {
  DeviceMemory most;
  if (!allocator_.initialized()) return most;
  for (int device = 0; device < devices_; ++device) {
    const auto stats = allocator_.getDeviceStats(static_cast<c10::DeviceIndex>(device));
    most = larger(most, {stats.allocated_bytes[aggregate].peak, stats.reserved_bytes[aggregate].peak});
  }
  return most;
}

void DevicePeak::restart() {
  if (!allocator_.initialized()) return;
  for (int device = 0; device < devices_; ++device) allocator_.resetPeakStats(static_cast<c10::DeviceIndex>(device));
}

void DevicePeak::reset() {
  earlier_ = {};
  if (allocator_.initialized()) allocator_.emptyCache();
  restart();
}

DeviceMemory DevicePeak::peak() const { return larger(earlier_, since_restart()); }

DevicePeak* device_peak() {
  static std::optional<DevicePeak> peak;
  if (!peak)
    if (const int gpus = gpus_of_this_process(); gpus > 0) peak.emplace(*c10::getDeviceAllocator(c10::kCUDA), gpus);
  return peak ? &*peak : nullptr;
}

}  // namespace dpbench
