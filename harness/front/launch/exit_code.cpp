#include "harness/front/launch/exit_code.h"

#include <algorithm>

namespace dpbench {

int exit_code(const Ending& ending) {
  if (ending.signal) return 128 + ending.signal;
  if (ending.usage) return exit_usage;
  if (ending.unsaved) return 5;
  if (ending.failed) return 3;
  if (ending.wrong) return 1;
  if (ending.inconclusive) return 4;
  if (ending.unavailable) return exit_unavailable;
  return 0;
}

Ending ending_of(const Report& report) {
  const auto count = [&](CaseStatus status) {
    return std::count_if(report.cases.begin(), report.cases.end(),
                         [&](const CaseRecord& record) { return record.status == status; });
  };
  return {.failed = count(CaseStatus::failed) > 0,
          .wrong = count(CaseStatus::wrong) > 0,
          .inconclusive =
              count(CaseStatus::unproven) > 0 || (count(CaseStatus::disturbed) > 0 && count(CaseStatus::ok) == 0),
          .unavailable = count(CaseStatus::skipped) == static_cast<std::ptrdiff_t>(report.cases.size())};
}

}  // namespace dpbench
