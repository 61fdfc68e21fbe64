// The catalogue: the strategies, workloads, backends and checks of this worker, as JSON. The front (the dpbench
// executable) reads the catalogue, because it links neither torch nor the strategies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/report/record/protocol.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Returns the text with which a report describes a strategy's gradient, for example "batch mean".
std::string meaning_of(Gradient gradient);

// Returns the catalogue as JSON. with_cuda = false: the CUDA library is not loaded and its strategies and backends are
// missing, as on a machine without a GPU. The workloads after the first `built_in`, and all workloads in Python, are
// marked as coming from plug-ins.
Json catalogue(bool with_cuda = true, size_t built_in = SIZE_MAX);

// Returns for each choice of parameter values why the strategy refuses it, or null. A choice is the text of a JSON
// object with the keys strategy and params. If it also has the keys workload, model, scale, data_dir, mesh and world,
// StrategyInfo::require_suitable() judges the model. A strategy can still refuse a case when it starts.
Json refusals(const std::vector<std::string>& choices);

}  // namespace dpbench
