// The gate of `dpbench compare`: rules such as median:5% (fail if the median step time rose by over 5 %), for all cases
// or for some.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/judge/metric.h"
#include "workloads/base/names.h"

namespace dpbench {

// Result of `compare` or `duel` over all cases.
enum class GateResult { passed, failed, inconclusive };
template <>
inline constexpr auto enum_names<GateResult> = std::to_array<std::string_view>({"passed", "failed", "inconclusive"});

// Returns the result as shown in summary lines, with FAILED in capitals.
inline std::string gate_text(GateResult gate) { return gate == GateResult::failed ? "FAILED" : name_of(gate); }

struct GateRule {
  const Metric* metric = nullptr;
  std::string text;  // the rule as written, e.g. median:5%
  double limit = 0;  // largest accepted change, in the unit of change_between(): log ratio or percentage points
  // Absolute limit on the metric in the new run, in its base unit (ns, bytes, ...); replaces `limit`. Unset: the rule
  // judges the change between two runs.
  std::optional<double> bound{};
};

// Parses one rule: a change, e.g. "median:5%" or "efficiency:3" (percentage points), or an absolute limit on the new
// run, e.g. "median:<0.5ms" or "throughput:>1000". Throws a UsageError that names the allowed values.
GateRule parse_rule(const std::string& text);

struct Gate {
  struct Special {
    std::string cases;  // glob over case ids, e.g. ddp/*/cpu:2/*
    std::vector<GateRule> rules;
    bool matches(const std::string& case_id) const;
  };
  std::vector<Special> special;  // rules for cases whose id matches a pattern; the first matching entry applies
  std::vector<GateRule> rules;   // rules for cases whose id matches no pattern

  // Returns the first entry of `special` that matches the case, or null if none does.
  const Special* special_for(const std::string& case_id) const;
  const std::vector<GateRule>& rules_for(const std::string& case_id) const;
  bool has_limits() const;  // returns true if a rule has an absolute limit
};

// Returns the gate for the values of --fail-on. Each text may hold several rules, separated by commas. An empty list
// gives the default rule median:5%.
Gate make_gate(const std::vector<std::string>& fail_on);
// Reads a gate file: {"fail_on": ["median:5%"], "cases": [{"match": "ddp/*", "fail_on": ["median:8%", "p99:20%"]}]}. An
// empty fail_on list means no rules.
Gate read_gate(const std::filesystem::path& file);

}  // namespace dpbench
