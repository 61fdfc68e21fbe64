// Of one GPU of a launch, over its samples: readings after each of them. What NVML does not tell is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

struct GpuCounters {
  std::string pci_bus{};
  int64_t readings = 0;
  std::optional<double> mean_power_w{}, most_power_w{};  // from the energy since the first sample began; as read
  std::optional<double> mean_sm_clock_mhz{};
  std::optional<int64_t> least_sm_clock_mhz{}, least_memory_clock_mhz{}, most_temperature_c{};
  int64_t throttled_readings = 0;               // something slowed it down at that moment
  std::vector<std::string> throttle_reasons{};  // all that were seen, in NVML's words
};

}  // namespace dpbench
