// Runs for the tests of comparisons, built from the step times of their launches.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/report/figures/summarise.h"
#include "harness/report/judge/compare_output.h"
#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"
#include "workloads/base/error.h"

namespace dpbench::test {

// Step time in ns of each launch (start of the processes) of a case.
using Times = std::vector<int64_t>;
inline const Times base_times = {1000, 1010, 990, 1020, 980}, slower_times = {1070, 1080, 1060, 1090};
inline const Times base_baseline = {500, 510, 490, 500, 520}, new_baseline = {500, 505, 495, 510};

inline Times scaled(const Times& times, double factor) {
  Times result;
  for (const int64_t t : times)
    result.push_back(std::llround(static_cast<double>(t) * 10 * factor));  // time of a block, which has 10 steps
  return result;
}

inline CaseRecord ddp(const Times& times, double factor = 1) {
  return measured("ddp", 2, Scaling::weak, 64, scaled(times, factor));
}
inline CaseRecord cpu(const Times& times) { return measured("cpu", 1, Scaling::weak, 64, scaled(times, 1)); }

inline Report run_of(std::vector<CaseRecord> cases, const std::string& id = "new") {
  Report report = report_of(std::move(cases));
  report.id = id;
  summarise(report);
  return report;
}

inline Comparison compared(const Report& base, const Report& now, const std::string& rules = "median:5%") {
  return compare(base, now, make_gate({rules}));
}

inline Verdict verdict(const Times& base, const Times& now, const std::string& rule = "median:5%") {
  const Comparison result = compared(run_of({ddp(base)}), run_of({ddp(now)}), rule);
  EXPECT_EQ(result.judged.size(), 1u);
  return result.judged.at(0).verdict;
}

// Returns the message of the UsageError that `call` throws, or "not refused" if it throws none.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace dpbench::test
