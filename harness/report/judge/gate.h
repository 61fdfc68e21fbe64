// What a gate fails on: rules such as median:5%, for all cases or per case.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/report/judge/metric.h"

namespace dpbench {

struct Rule {
  const Metric* metric = nullptr;
  std::string text;  // median:5%
  double limit = 0;  // in the coordinates of change_between
};

// "median:5%", "efficiency:3" (points). Throws UsageError naming what is allowed.
Rule parse_rule(const std::string& text);

struct Gate {
  struct Special {
    std::string cases;  // a glob over ids: ddp/*/cpu:2/*
    std::vector<Rule> rules;
    bool fits(const std::string& case_id) const;
  };
  std::vector<Special> special;  // the first that matches decides
  std::vector<Rule> rules;       // for all other cases

  const Special* special_for(const std::string& case_id) const;  // null: none
  const std::vector<Rule>& rules_for(const std::string& case_id) const;
};

// fail_on: rules, each text may hold several between commas; none: median:5%.
Gate make_gate(const std::vector<std::string>& fail_on);
// {"fail_on": ["median:5%"], "cases": [{"match": "ddp/*", "fail_on": ["median:8%", "p99:20%"]}]}; an empty list gates
// nothing.
Gate read_gate(const std::filesystem::path& file);

}  // namespace dpbench
