// The map of a plan: time of a step against memory, a point for each layout, the limit of the devices' memory as a
// line.
#pragma once

#include <string>

#include "harness/forecast/plan/layout_plan.h"

namespace dpbench::forecast {

// Draws for a terminal of this many columns.
std::string map_text(const LayoutPlan& plan, size_t width);
std::string map_svg(const LayoutPlan& plan);

}  // namespace dpbench::forecast
