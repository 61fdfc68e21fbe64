// What one replica's part of the machine can do at most: a matrix product, and a[i] = b[i] + s c[i] through memory
// (McCalpin's triad). Short, so that it can stand in every run.
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/report/profile.h"

namespace dpbench {

// Measured once per process and dtype; the best of several tries. Takes about 0.3 s.
Peak measured_peak(at::ScalarType dtype, at::Device device);

}  // namespace dpbench
