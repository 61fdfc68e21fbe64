// GPUs as the driver's management library tells them. It is opened at run time; without it there are none.
#pragma once

#include <string>

#include "harness/report/environment.h"

namespace dpbench {

struct GpuSurvey {
  Accelerators accelerators;
  std::string why_none;  // "no NVIDIA driver (libnvidia-ml.so.1 is not there)"
};

GpuSurvey survey_gpus();

}  // namespace dpbench
