// GPUs as the driver's management library tells them; without it there are none.
#pragma once

#include <string>

#include "harness/report/machine/environment.h"

namespace dpbench {

struct GpuSurvey {
  Accelerators accelerators;
  std::string why_none;  // "no NVIDIA driver"
};

GpuSurvey survey_gpus();

// 13000, as CUDA packs it: "13.0".
std::string cuda_version(int packed);

}  // namespace dpbench
