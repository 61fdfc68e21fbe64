// Reads clocks, power and throttling of a rank's GPUs through NVML after each timed block of steps, never inside one.
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
  // pci_buses: PCI bus ids, in CUDA's form, of the GPUs to read. Ids that NVML does not know are ignored.
  explicit GpuWatch(const std::vector<std::string>& pci_buses);
  // Reads the energy counters and the time, from which read() computes mean power. Call it right before the first timed
  // block.
  void start();
  // Adds one reading of every GPU. Call it right after each timed block.
  void read();
  std::vector<GpuCounters> counters() const;

 private:
  struct Watched {
    Nvml::Device device;
    GpuCounters counters;
    std::optional<unsigned long long> energy_at_start_mj;
    double sm_clock_sum_mhz = 0;
  };
  std::optional<unsigned long long> energy_mj(const Watched& one) const;
  void read(Watched& one, double seconds) const;

  std::optional<Nvml> nvml_;
  std::vector<Watched> watched_;
  std::chrono::steady_clock::time_point start_{};
};

}  // namespace dpbench
