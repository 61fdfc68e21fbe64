#include "harness/report/machine/gpu_watch.h"

#include <algorithm>

namespace dpbench {
namespace {

template <class T>
void keep_least(std::optional<int64_t>& kept, std::optional<T> value) {
  if (value) kept = kept ? std::min<int64_t>(*kept, *value) : *value;
}

}  // namespace

GpuWatch::GpuWatch(const std::vector<std::string>& pci_buses) {
  if (pci_buses.empty()) return;
  nvml_.emplace();
  for (const std::string& bus : pci_buses) {
    const auto device = nvml_->at_bus(bus);
    if (!device) continue;
    // Report the PCI bus id in NVML's form, as the report's env.gpus does; CUDA's form is shorter.
    const std::string known_as = nvml_->bus_of(*device);
    watched_.push_back(
        {.device = *device, .counters = {.pci_bus = known_as.empty() ? bus : known_as}, .energy_at_start_mj = {}});
  }
}

std::optional<unsigned long long> GpuWatch::energy_mj(const Watched& one) const {
  return nvml_->query<unsigned long long>("nvmlDeviceGetTotalEnergyConsumption", one.device);
}

void GpuWatch::start() {
  for (Watched& one : watched_) one.energy_at_start_mj = energy_mj(one);
  start_ = std::chrono::steady_clock::now();
}

void GpuWatch::read() {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  for (Watched& one : watched_) read(one, seconds);
}

void GpuWatch::read(Watched& one, double seconds) {
  GpuCounters& c = one.counters;
  ++c.readings;
  if (const auto energy = energy_mj(one); energy && one.energy_at_start_mj && seconds > 0) {
    one.energy_mj += static_cast<double>(*energy - *one.energy_at_start_mj);
    one.seconds += seconds;
    c.mean_power_w = one.energy_mj * 1e-3 / one.seconds;
  }
  if (const auto milliwatts = nvml_->query<unsigned>("nvmlDeviceGetPowerUsage", one.device))
    c.most_power_w = std::max(c.most_power_w.value_or(0), *milliwatts * 1e-3);
  const auto clock = nvml_->query<unsigned>("nvmlDeviceGetClockInfo", one.device, nvml_sm_clock);
  keep_least(c.least_sm_clock_mhz, clock);
  if (clock) c.mean_sm_clock_mhz = (one.sm_clock_sum_mhz += *clock) / static_cast<double>(++one.sm_clock_readings);
  keep_least(c.least_memory_clock_mhz, nvml_->query<unsigned>("nvmlDeviceGetClockInfo", one.device, nvml_memory_clock));
  if (const auto heat = nvml_->query<unsigned>("nvmlDeviceGetTemperature", one.device, nvml_gpu_temperature))
    c.most_temperature_c = std::max<int64_t>(c.most_temperature_c.value_or(*heat), *heat);
  const auto reasons = dpbench::throttle_reasons(
      nvml_->query<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", one.device).value_or(0));
  c.throttled_readings += !reasons.empty();
  for (const auto& reason : reasons)
    if (std::find(c.throttle_reasons.begin(), c.throttle_reasons.end(), reason) == c.throttle_reasons.end())
      c.throttle_reasons.push_back(reason);
}

std::vector<GpuCounters> GpuWatch::counters() const {
  std::vector<GpuCounters> all;
  for (const Watched& one : watched_) all.push_back(one.counters);
  return all;
}

}  // namespace dpbench
