// The gate: rules like median:5%, for all cases or for some.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/report/judge/metric.h"

namespace dpbench {

struct Rule {
  const Metric* metric = nullptr;
  std::string text;  // e.g. median:5%
  double limit = 0;  // in the unit of change_between: logs or points
};

// Parses "median:5%" or "efficiency:3" (points). Throws a UsageError that names the allowed values.
Rule parse_rule(const std::string& text);

struct Gate {
  struct Special {
    std::string cases;  // a glob over case ids: ddp/*/cpu:2/*
    std::vector<Rule> rules;
    bool matches(const std::string& case_id) const;
  };
  std::vector<Special> special;  // the first match decides
  std::vector<Rule> rules;       // for all other cases

  const Special* special_for(const std::string& case_id) const;  // null: none
  const std::vector<Rule>& rules_for(const std::string& case_id) const;
};

// Each text of fail_on may hold several rules, separated by commas. Empty: median:5%.
Gate make_gate(const std::vector<std::string>& fail_on);
// Reads a gate file: {"fail_on": ["median:5%"], "cases": [{"match": "ddp/*", "fail_on": ["median:8%", "p99:20%"]}]}.
// An empty list has no rules.
Gate read_gate(const std::filesystem::path& file);

}  // namespace dpbench
