// Lists the GPUs through NVML, the driver's management library. Without NVML the list is empty.
#pragma once

#include <string>

#include "harness/report/machine/environment.h"

namespace dpbench {

struct GpuSurvey {
  Accelerators accelerators;
  std::string why_none;  // reason for an empty list, e.g. "no NVIDIA driver"
};

GpuSurvey survey_gpus();

// Converts CUDA's packed version: 13000 is "13.0".
std::string cuda_version(int packed);

}  // namespace dpbench
