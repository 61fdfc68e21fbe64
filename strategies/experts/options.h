// The traffic formula of the strategy "ep" (expert parallelism). The strategy has no parameters.
#pragma once

#include <optional>
#include <vector>

#include "strategies/api/traffic.h"

namespace dpbench::experts {

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::experts
