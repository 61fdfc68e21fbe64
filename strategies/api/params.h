// Parameters of a strategy, set on the command line by --param ddp.bucket_mb=25. Values are stored as text and parsed
// on access.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workloads/base/error.h"

namespace dpbench {

struct ParamInfo {
  std::string name, fallback, summary;
  // Allowed values, separated by '|', such as "none|fp16|bf16". The entries "integer" and "number" allow all integers
  // or numbers, also with a lower limit: "integer from 1", "number above 0". Empty: "on|off" if `fallback` (the default
  // value) is "on" or "off", else any text.
  std::string values = "";
};

using ParamValues = std::map<std::string, std::string>;

class Params {
 public:
  Params() = default;
  // Parameters missing from `given` get their defaults. Throws UsageError, which lists the known names, if `given` has
  // an unknown one.
  Params(const std::vector<ParamInfo>& known, const ParamValues& given, const std::string& owner);

  const std::string& owner() const { return owner_; }
  const std::string& text(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const;  // Returns the value of a switch, spelled on/off, true/false or 1/0.

 private:
  ParamValues values_;
  std::string owner_;
};

// The words that the user may give as value of a strategy's parameter, each with the value that it stands for.
template <class Value>
using Words = std::vector<std::pair<std::string, Value>>;

// Returns the value that the user's word for this parameter stands for. Throws UsageError if the word is not allowed;
// the message lists all words and ends with `note`.
template <class Value>
Value chosen(const Params& params, const std::string& name, const Words<Value>& words, const std::string& note = "") {
  std::string allowed;
  for (const auto& [word, value] : words) {
    if (word == params.text(name)) return value;
    allowed += (allowed.empty() ? "" : ", ") + word;
  }
  throw UsageError(params.owner() + "." + name + "=" + params.text(name) + " must be one of: " + allowed + note);
}

}  // namespace dpbench
