// What exists, for the front, which knows no torch: strategies, workloads, backends, their parameters.
#pragma once

#include "harness/report/protocol.h"

namespace dpbench {

Json catalogue();

}  // namespace dpbench
