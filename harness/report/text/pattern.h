// The regular expression of the --filter flag. Every command and the worker process use this class.
#pragma once

#include <regex>
#include <string>

#include "workloads/base/error.h"

namespace dpbench {

// An ECMAScript regular expression that matches anywhere in a name. An empty one matches every name.
class NamePattern {
 public:
  // Throws UsageError if the text is not a regular expression, or is too long.
  explicit NamePattern(const std::string& text) try : pattern_(checked(text), std::regex::ECMAScript) {
  } catch (const std::regex_error&) {
    throw UsageError("'" + text.substr(0, 40) + "' is no regular expression (ECMAScript, as in 'ddp/.*cpu:2')");
  }

  bool matches(const std::string& name) const { return std::regex_search(name, pattern_); }

 private:
  static const std::string& checked(const std::string& text) {
    if (text.size() > 1000) throw UsageError("a regular expression of more than 1000 characters is refused");
    return text;
  }

  std::regex pattern_;
};

}  // namespace dpbench
