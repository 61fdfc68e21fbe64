// What a launch's GPUs did while its samples were taken: read after each sample, never inside one.
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
  // Bus ids as CUDA tells them; one that NVML does not know is left out.
  explicit GpuWatch(const std::vector<std::string>& pci_buses);
  // Right before the first sample.
  void start();
  // Right after each.
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
