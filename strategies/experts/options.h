// The formula of the traffic of the strategy "ep", which has no parameters.
#pragma once

#include <optional>
#include <vector>

#include "strategies/api/traffic.h"

namespace dpbench::experts {

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::experts
