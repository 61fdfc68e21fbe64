#include "strategies/api/params.h"

#include "workloads/base/number.h"

namespace dpbench {
namespace {

template <class Number>
Number parse(const std::string& value, const std::string& what) {
  if (const auto number = parse_number<Number>(value)) return *number;
  throw UsageError(what + "=" + value + " is not a number");
}

}  // namespace

Params::Params(const std::vector<ParamInfo>& known, const ParamValues& given, const std::string& owner)
    : owner_(owner) {
  std::string names;
  for (const auto& info : known) {
    values_[info.name] = info.fallback;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  for (const auto& [name, value] : given) {
    if (!values_.contains(name))
      throw UsageError(owner + " has no parameter '" + name + "'" + (names.empty() ? "" : " (it has: " + names + ")"));
    values_[name] = value;
  }
}

const std::string& Params::text(const std::string& name) const {
  const auto found = values_.find(name);
  check(found != values_.end(), owner_ + " reads a parameter that it does not declare: " + name);
  return found->second;
}

double Params::number(const std::string& name) const { return parse<double>(text(name), owner_ + "." + name); }

int64_t Params::integer(const std::string& name) const { return parse<int64_t>(text(name), owner_ + "." + name); }

bool Params::flag(const std::string& name) const {
  const std::string& value = text(name);
  static const std::map<std::string, bool> words = {{"on", true},   {"true", true},   {"1", true},
                                                    {"off", false}, {"false", false}, {"0", false}};
  if (const auto word = words.find(value); word != words.end()) return word->second;
  throw UsageError(owner_ + "." + name + "=" + value + " is neither on nor off");
}

}  // namespace dpbench
