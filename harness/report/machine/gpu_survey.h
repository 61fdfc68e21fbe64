// Lists the machine's GPUs through NVML, the NVIDIA driver's management library. Without NVML the list is empty.
#pragma once

#include <string>

#include "harness/report/machine/environment.h"

namespace dpbench {

struct GpuSurvey {
  Accelerators accelerators;
  std::string why_none;  // reason why no GPU is listed, e.g. "no NVIDIA driver"
};

GpuSurvey survey_gpus();

// Converts CUDA's packed version number to text: 13000 becomes "13.0".
std::string cuda_version(int packed);

}  // namespace dpbench
