// The speed of one device, fitted to measured steps of a gpt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/forecast/plan/work.h"
#include "harness/report/record/report.h"

namespace dpbench::forecast {

// The rate of matrix products and attention in layers of one size: the operations of a layer's forward pass.
struct SizeRate {
  double layer_flop = 0, flop_per_s = 0;
};

struct Speed {
  std::vector<SizeRate> rates = {};  // in ascending order of size; at least one
  double bytes_per_s = 0;            // of memory; 0: the rates include all operations
  double update_s = 0;               // time of the optimizer per parameter
  std::string fitted_to = {};        // source of these figures, for people

  // Returns the rate for layers of this size: between two measured sizes in proportion to the logarithm of the size,
  // beyond them that of the nearest.
  double flop_per_s(double layer_flop) const;
  double seconds(const Pass& pass, double layer_flop) const;
};

// Returns the speed measured by the report's one-device cases of gpt with this device, dtype and, on the CPU, number of
// threads. The rates of cases with layers of one size are averaged. Throws UsageError if there is no such case.
Speed speed_of(const Report& report, Device device, Dtype dtype, int threads);

// Returns the share of communication that gpt hid on several GPUs, as a mean over the report's cases of strategies that
// overlap it; nullopt if there is none.
std::optional<double> measured_overlap(const Report& report);

// Returns a speed with one rate for everything.
Speed constant_speed(double flop_per_s, const std::string& fitted_to);

gpt::Precision precision_of(Dtype dtype);

}  // namespace dpbench::forecast
