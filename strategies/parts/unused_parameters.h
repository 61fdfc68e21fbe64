// The error that a strategy throws if it needs a gradient of every parameter and a parameter has none.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace dpbench {

// advice: the last part of the error message, which says what to do, for example ". Use --param ddp.find_unused=on.".
[[noreturn]] inline void refuse_unused(const std::string& strategy, const std::vector<std::string>& unused,
                                       const std::string& advice) {
  std::string names;
  for (const std::string& name : unused) names += (names.empty() ? "" : ", ") + name;
  throw std::runtime_error(strategy + ": this rank's loss did not use every parameter (unused: " + names + ")" +
                           advice);
}

}  // namespace dpbench
