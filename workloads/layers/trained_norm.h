// BatchNorm without a weight, in training mode, faster than torch's on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

struct RunningStatistics {
  const at::Tensor &mean, &var;
  double momentum;
};

// BatchNorm without a weight, in training mode. Gives the same bits as at::batch_norm with training=true, but faster
// for float32 images on a CPU with at most two threads.
at::Tensor trained_norm(const at::Tensor& input, const at::Tensor& bias, const RunningStatistics& running,
                        double epsilon);

}  // namespace dpbench
