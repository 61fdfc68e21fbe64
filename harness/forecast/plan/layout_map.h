// Draws the map of a plan: step time against memory, with a line at the memory limit and a point for each layout in
// `fitting` and `unfitting`, except layouts far above the limit.
#pragma once

#include <string>

#include "harness/forecast/plan/layout_plan.h"

namespace dpbench::forecast {

// Returns the map of a plan (step time against memory) as text for a terminal of `width` columns.
std::string map_text(const LayoutPlan& plan, size_t width);
std::string map_svg(const LayoutPlan& plan);

}  // namespace dpbench::forecast
