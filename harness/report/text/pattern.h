// The regular expression of the --filter flag. Every command and the worker process use this class.
#pragma once

#include <memory>
#include <string>

namespace re2 {
class RE2;
}

namespace dpbench {

// A regular expression of RE2 that matches anywhere in a name. An empty one matches every name.
class NamePattern {
 public:
  // Throws UsageError if the text is not a regular expression. The message says what is wrong and where.
  explicit NamePattern(const std::string& text);

  bool matches(const std::string& name) const;

 private:
  std::shared_ptr<const re2::RE2> pattern_;
};

}  // namespace dpbench
