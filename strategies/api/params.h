// What a strategy lets its user set: --param ddp.bucket_mb=25. Values travel as text and are read where they are used.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dpbench {

struct ParamInfo {
  std::string name, fallback, summary;
};

using ParamValues = std::map<std::string, std::string>;

class Params {
 public:
  Params() = default;
  // given: only names that `known` declares; everything else gets its default. Throws UsageError naming what is
  // allowed.
  Params(const std::vector<ParamInfo>& known, const ParamValues& given, const std::string& owner);

  const std::string& text(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const;  // on/off, true/false, 1/0

 private:
  ParamValues values_;
  std::string owner_;
};

}  // namespace dpbench
