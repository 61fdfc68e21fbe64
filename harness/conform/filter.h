// Selects conformance checks by name, for the flag --filter.
#pragma once

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "workloads/base/error.h"

namespace dpbench {

class CheckFilter {
 public:
  // text: an extended regular expression on check names; an empty text selects all checks. Throws UsageError if it is
  // invalid.
  explicit CheckFilter(const std::string& text) try
      : all_(text.empty()), pattern_(text, std::regex::extended | std::regex::optimize) {
  } catch (const std::regex_error&) {
    throw UsageError("--filter " + text + " is not a regular expression");
  }

  bool takes_all() const { return all_; }
  bool takes(const std::string& name) const { return all_ || std::regex_search(name, pattern_); }
  bool takes_any(const std::vector<std::string>& names) const {
    return std::any_of(names.begin(), names.end(), [this](const std::string& name) { return takes(name); });
  }

 private:
  bool all_;
  std::regex pattern_;
};

}  // namespace dpbench
