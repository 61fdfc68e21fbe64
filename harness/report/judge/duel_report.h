// duel.json: two builds measured in turn, and what was made of it.
#pragma once

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/judge/duel.h"
#include "harness/report/record/report.h"

namespace dpbench {

enum class Side { base, now };
template <>
inline constexpr auto enum_names<Side> = std::to_array<std::string_view>({"base", "new"});

struct DuelPair {
  Side first = Side::base;
  int64_t base_ns = 0, new_ns = 0;
};

template <>
struct Table<DuelPair> {
  using P = DuelPair;
  static constexpr const char* name = "pair";
  static constexpr std::tuple fields{
      Field{"first", "-", &P::first, "the build that was measured first"},
      Field{"base_ns", "ns", &P::base_ns, "of a block of steps_per_block steps, the slowest rank's", range::positive},
      Field{"new_ns", "ns", &P::new_ns, "likewise", range::positive}};
};

// wrong: the new build. unmeasured: the base is wrong.
enum class DuelStatus { ok, wrong, unmeasured, failed, skipped, interrupted };
template <>
inline constexpr auto enum_names<DuelStatus> =
    std::to_array<std::string_view>({"ok", "wrong", "unmeasured", "failed", "skipped", "interrupted"});

struct DuelCase {
  CaseSpec spec;
  DuelStatus status = DuelStatus::interrupted;
  std::string reason = {};  // why it is not ok, or why it is unclear
  int64_t steps_per_block = 0;
  std::vector<std::vector<DuelPair>> launches = {};  // fresh processes of both builds each
  DuelLook look = {};                                // the last one
  std::vector<CheckRow> base_checks = {}, new_checks = {};
  std::vector<std::string> warnings = {};

  bool ok() const { return status == DuelStatus::ok; }
  bool bad() const { return status == DuelStatus::failed || status == DuelStatus::wrong; }
};

struct DuelBuild {
  std::string worker{}, torch{};
  std::vector<std::string> plugins{};
};

template <>
struct Table<DuelBuild> {
  using B = DuelBuild;
  static constexpr const char* name = "build";
  static constexpr std::tuple fields{Field{"worker", "-", &B::worker, "program that its ranks ran", range::not_empty},
                                     Field{"torch", "-", &B::torch, "version that it was built with", range::not_empty},
                                     Field{"plugins", "-", &B::plugins, "libraries that it loaded"}};
};

inline constexpr int duel_minor_version = 1;

struct DuelReport {
  std::string id;
  RunStatus status = RunStatus::interrupted;
  int64_t order_seed = 0;  // of which build comes first in a pair, and of the order of cases; 0: not known (before 1.1)
  Json tool = Json::object(), env = Json::object(), config = Json::object();
  DuelBuild base, now;
  DuelRule rule;
  std::vector<DuelCase> cases;
  std::vector<std::string> added, gone;  // ids that one of the builds alone has

  size_t count(Verdict verdict) const;  // of the cases that are ok
  size_t count(DuelStatus wanted) const;
  bool inconclusive() const {
    return count(Verdict::unclear) + count(DuelStatus::skipped) + count(DuelStatus::unmeasured) +
               count(DuelStatus::interrupted) >
           0;
  }
};

std::vector<double> log_ratios(const DuelCase& record);

Json to_json(const DuelReport& report);
// Title row first; which of the columns are numbers; "1 slower, 3 same of 4. Gate: FAILED".
std::vector<std::vector<std::string>> duel_rows(const DuelReport& report);
const std::vector<bool>& duel_columns_right();
std::string duel_summary(const DuelReport& report);

}  // namespace dpbench
