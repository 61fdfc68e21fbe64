// Selects conformance checks by name, for the flag --filter.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "harness/report/text/pattern.h"

namespace dpbench {

class CheckFilter {
 public:
  // text: a pattern for check names; an empty text selects all checks. Throws UsageError if the pattern is invalid.
  explicit CheckFilter(const std::string& text) : all_(text.empty()), pattern_(text) {}

  bool takes(const std::string& name) const { return all_ || pattern_.matches(name); }
  bool takes_any(const std::vector<std::string>& names) const {
    return std::any_of(names.begin(), names.end(), [this](const std::string& name) { return takes(name); });
  }

 private:
  bool all_;
  NamePattern pattern_;
};

}  // namespace dpbench
