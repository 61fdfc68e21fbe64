// Reads clocks, power and throttling of a case's GPUs through NVML, before and after each timed block of steps and
// never inside one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/machine/nvml.h"
#include "harness/report/record/gpu_counters.h"

namespace dpbench {

class GpuWatch {
 public:
  // pci_buses: PCI bus ids, in CUDA's form, of the GPUs to watch. Ids that NVML does not know are ignored.
  explicit GpuWatch(const std::vector<std::string>& pci_buses);
  // Starts a measurement of energy. Call it right before each timed block.
  void start();
  // Adds one reading of every GPU. Call it right after each timed block.
  void read();
  std::vector<GpuCounters> counters() const;

 private:
  struct Watched {
    Nvml::Device device;
    GpuCounters counters;
    std::optional<unsigned long long> energy_at_start_mj;
    double energy_mj = 0, seconds = 0;  // energy and time, summed over the timed blocks
    double sm_clock_sum_mhz = 0;
    int64_t sm_clock_readings = 0;
  };
  std::optional<unsigned long long> energy_mj(const Watched& one) const;
  void read(Watched& one, double seconds);

  std::optional<Nvml> nvml_;
  std::vector<Watched> watched_;
  std::chrono::steady_clock::time_point start_{};
};

}  // namespace dpbench
