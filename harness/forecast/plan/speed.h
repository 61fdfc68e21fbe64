// The speed of one device, fitted to measured steps of gpt models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/forecast/plan/work.h"
#include "harness/report/record/report.h"

namespace dpbench::forecast {

// The FLOP/s of matrix products and attention for layers of one size. The size is the FLOP of a layer's forward pass.
struct SizeRate {
  double layer_flop = 0, flop_per_s = 0;
};

// The flag that gives the speed of a device without a run, for error messages.
inline constexpr const char* rate_example = "--rate 400TF";

struct Speed {
  std::vector<SizeRate> rates = {};  // FLOP/s by layer size, in ascending order of size; never empty
  double bytes_per_s = 0;            // memory bandwidth; 0: unknown, and `rates` include the time of memory traffic
  double update_s = 0;               // time of the optimizer per parameter
  std::string fitted_to = {};        // the run and the cases to which the speed was fitted, for display

  // Returns the FLOP/s for layers of this size: interpolated between measured sizes over the logarithm of the size;
  // outside of them, the rate of the nearest size.
  double flop_per_s(double layer_flop) const;
  double seconds(const Pass& pass, double layer_flop) const;
};

// Returns the speed measured by the report's ok cases of gpt on one device of this type, with this dtype and, on the
// CPU, this number of threads, but without experts or --recompute. Cases with equal layer sizes are averaged. Throws
// UsageError if the report has none of these cases.
Speed speed_of(const Report& report, Device device, Dtype dtype, int threads);

// Returns the share of communication that computation hid, as a mean over the report's multi-GPU gpt cases with ddp,
// zero2 or fsdp; nullopt if none of these cases has a measured overlap.
std::optional<double> measured_overlap(const Report& report);

// Returns a speed with the same FLOP/s for all layer sizes.
Speed constant_speed(double flop_per_s, const std::string& fitted_to);

gpt::Precision precision_of(Dtype dtype);

}  // namespace dpbench::forecast
