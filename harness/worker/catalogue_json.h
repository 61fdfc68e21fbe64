// The catalogue: a JSON list of strategies, workloads, backends and their parameters. The front (the dpbench
// executable) reads it because it does not link torch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the catalogue as JSON. with_cuda = false: the CUDA library is not loaded and its strategies and backends are
// missing. Workloads after the first `built_in` are marked as coming from plug-ins.
Json catalogue(bool with_cuda = true, size_t built_in = SIZE_MAX);

}  // namespace dpbench
