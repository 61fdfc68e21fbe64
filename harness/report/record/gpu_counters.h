// Of one GPU of a launch: readings after each block. A figure that NVML does not tell is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"

namespace dpbench {

struct GpuCounters {
  std::string pci_bus{};
  int64_t readings = 0;
  std::optional<double> mean_power_w{}, most_power_w{}, mean_sm_clock_mhz{};
  std::optional<int64_t> least_sm_clock_mhz{}, least_memory_clock_mhz{}, most_temperature_c{};
  int64_t throttled_readings = 0;
  std::vector<std::string> throttle_reasons{};
};

template <>
struct Table<GpuCounters> {
  using G = GpuCounters;
  static constexpr const char* name = "gpu_counters";
  static constexpr std::tuple fields{
      Field{"pci_bus", "-", &G::pci_bus, "where it sits", range::not_empty},
      Field{"readings", "readings", &G::readings, "after each block", range::not_negative},
      later(Field{"mean_power_w", "W", &G::mean_power_w, "from the energy since the first block began",
                  range::not_negative}),
      later(Field{"most_power_w", "W", &G::most_power_w, "as read", range::not_negative}),
      later(Field{"mean_sm_clock_mhz", "MHz", &G::mean_sm_clock_mhz, "as read", range::not_negative}),
      later(Field{"least_sm_clock_mhz", "MHz", &G::least_sm_clock_mhz, "as read", range::not_negative}),
      later(Field{"least_memory_clock_mhz", "MHz", &G::least_memory_clock_mhz, "as read", range::not_negative}),
      later(Field{"most_temperature_c", "°C", &G::most_temperature_c, "as read", range::not_negative}),
      Field{"throttled_readings", "readings", &G::throttled_readings, "in which its clocks were held down",
            range::not_negative},
      Field{"throttle_reasons", "-", &G::throttle_reasons, "all that were seen, in NVML's words", range::not_empty}};
};

}  // namespace dpbench
