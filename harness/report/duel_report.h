// duel.json: two builds measured in turn, and what was made of it.
#pragma once

#include <string>
#include <vector>

#include "harness/report/duel.h"
#include "harness/report/report.h"

namespace dpbench {

struct DuelPair {
  bool base_first = true;
  int64_t base_ns = 0, new_ns = 0;  // of a block, the slowest rank's
};

struct DuelCase {
  CaseSpec spec;
  std::string status =
      "interrupted";  // ok | wrong (in the new build) | unmeasured (the base is wrong) | failed | skipped | interrupted
  std::string reason = {};  // why it is not ok, or why it is unclear
  int64_t steps_per_block = 0;
  std::vector<std::vector<DuelPair>> launches = {};  // fresh processes of both builds each
  DuelLook look = {};                                // the last one
  std::vector<CheckRow> base_checks = {}, new_checks = {};
  std::vector<std::string> warnings = {};
};

struct DuelBuild {
  std::string worker, torch;
  std::vector<std::string> plugins;
};

inline constexpr int duel_minor_version = 1;

struct DuelReport {
  std::string id, status = "interrupted";  // complete | interrupted
  int64_t order_seed = 0;  // of which build comes first in a pair, and of the order of cases; 0: not known (before 1.1)
  Json tool = Json::object(), env = Json::object(), config = Json::object();
  DuelBuild base, now;
  DuelRule rule;
  std::vector<DuelCase> cases;
  std::vector<std::string> added, gone;  // ids that one of the builds alone has

  size_t count(Verdict verdict) const;  // of the cases that are ok
  size_t count(const std::string& status) const;
  bool inconclusive() const {
    return count(Verdict::unclear) + count("skipped") + count("unmeasured") + count("interrupted") > 0;
  }
};

std::vector<double> log_ratios(const DuelCase& record);

Json to_json(const DuelReport& report);
// Title row first; which of the columns are numbers; "1 slower, 3 same of 4. Gate: FAILED".
std::vector<std::vector<std::string>> duel_rows(const DuelReport& report);
const std::vector<bool>& duel_columns_right();
std::string duel_summary(const DuelReport& report);

}  // namespace dpbench
