// What a schema cannot say about a report: that it agrees with itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.h"

namespace dpbench {

// Each problem names its case; empty: the report holds together. Statistics are worked out again from the raw samples.
std::vector<std::string> problems_of(const Report& report);
// What would let a wrong case pass for a sound one: a status that its own checks deny, an id that stands there twice.
std::optional<std::string> contradiction_of(const Report& report);

}  // namespace dpbench
