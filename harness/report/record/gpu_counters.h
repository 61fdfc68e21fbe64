// NVML counters of one GPU in one launch (start of a case's processes), read after each timed block of steps. A figure
// that NVML does not provide is left empty.
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
      Field{"pci_bus", "-", &G::pci_bus, "PCI bus id of the GPU", range::not_empty},
      Field{"readings", "readings", &G::readings, "number of readings; one after each block", range::not_negative},
      later(Field{"mean_power_w", "W", &G::mean_power_w, "mean power over the blocks, from the energy used",
                  range::not_negative}),
      later(Field{"most_power_w", "W", &G::most_power_w, "highest power read", range::not_negative}),
      later(Field{"mean_sm_clock_mhz", "MHz", &G::mean_sm_clock_mhz, "mean SM clock read", range::not_negative}),
      later(Field{"least_sm_clock_mhz", "MHz", &G::least_sm_clock_mhz, "lowest SM clock read", range::not_negative}),
      later(Field{"least_memory_clock_mhz", "MHz", &G::least_memory_clock_mhz, "lowest memory clock read",
                  range::not_negative}),
      later(Field{"most_temperature_c", "°C", &G::most_temperature_c, "highest temperature read", range::not_negative}),
      Field{"throttled_readings", "readings", &G::throttled_readings, "number of readings with throttled clocks",
            range::not_negative},
      Field{"throttle_reasons", "-", &G::throttle_reasons, "all throttle reasons seen, as NVML names them",
            range::not_empty}};
};

}  // namespace dpbench
