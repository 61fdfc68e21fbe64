// Draws the map of a plan: step time against memory, with a point for each layout and a line at the memory limit.
#pragma once

#include <string>

#include "harness/forecast/plan/layout_plan.h"

namespace dpbench::forecast {

// Returns the map as text for a terminal of `width` columns.
std::string map_text(const LayoutPlan& plan, size_t width);
std::string map_svg(const LayoutPlan& plan);

}  // namespace dpbench::forecast
