#include "harness/front/cli/quantities.h"

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {

double positive_quantity(const std::string& flag, const std::string& text, const std::vector<Unit>& units,
                         const std::string& what) {
  std::string names;
  for (const Unit& unit : units) names += std::string(names.empty() ? "" : ", ") + unit.name;
  const auto refuse = [&](const std::string& why) {
    throw UsageError(flag + " '" + one_line(text, 40) + "': " + why + "; units: " + names);
  };
  const double value = quantity(text, units, what, refuse);
  if (!(value > 0)) refuse("the " + what + " must be above 0");
  return value;
}

double parse_memory(const std::string& text) {
  if (text.empty()) return 0;
  return positive_quantity("--memory", text, {{"MB", 1e6}, {"GB", 1e9}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}},
                           "size");
}

}  // namespace dpbench
