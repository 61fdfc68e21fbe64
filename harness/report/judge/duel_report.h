// The report of a duel (duel.json): block times of two builds measured alternately, and the verdicts.
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
      Field{"first", "-", &P::first, "build measured first"},
      Field{"base_ns", "ns", &P::base_ns, "duration of the base build's block of steps_per_block steps, slowest rank",
            range::positive},
      Field{"new_ns", "ns", &P::new_ns, "duration of the new build's block of steps_per_block steps, slowest rank",
            range::positive}};
};

// Status of a case in a duel. wrong: a check of the new build failed. unmeasured: a check of the base build failed.
enum class DuelStatus { ok, wrong, unmeasured, failed, skipped, interrupted };
template <>
inline constexpr auto enum_names<DuelStatus> =
    std::to_array<std::string_view>({"ok", "wrong", "unmeasured", "failed", "skipped", "interrupted"});

struct DuelCase {
  CaseSpec spec;
  DuelStatus status = DuelStatus::interrupted;
  std::string reason = {};  // why the status is not ok, or why the verdict is unclear
  int64_t steps_per_block = 0;
  // launches[i]: pairs of blocks timed in launch i. Each launch starts new processes of both builds.
  std::vector<std::vector<DuelPair>> launches = {};
  DuelLook look = {};  // result of the case's last interim analysis
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
  static constexpr std::tuple fields{Field{"worker", "-", &B::worker, "worker program of the build", range::not_empty},
                                     Field{"torch", "-", &B::torch, "LibTorch version of the build", range::not_empty},
                                     Field{"plugins", "-", &B::plugins, "plug-ins that the build loaded"}};
};

inline constexpr int duel_minor_version = 1;

struct DuelReport {
  std::string id;
  RunStatus status = RunStatus::interrupted;
  // Random seed for the order of the two builds within pairs and for the order of cases. 0: unknown (report before
  // version 1.1).
  int64_t order_seed = 0;
  Json tool = Json::object(), env = Json::object(), config = Json::object();
  DuelBuild base, now;
  DuelRule rule;
  std::vector<DuelCase> cases;
  std::vector<std::string> added, gone;  // ids of cases that only the new build (added) or the base build (gone) has

  size_t count(Verdict verdict) const;  // returns the number of ok cases with this verdict
  size_t count(DuelStatus wanted) const;
  bool inconclusive() const {
    return count(Verdict::unclear) + count(DuelStatus::skipped) + count(DuelStatus::unmeasured) +
               count(DuelStatus::interrupted) >
           0;
  }
};

std::vector<double> log_ratios(const DuelCase& record);

Json to_json(const DuelReport& report);
// Returns the duel's table: the title row, then a row per case. BASE is the median over the base build's blocks, and
// NEW is BASE changed by CHANGE, the median over the pairs. duel_columns_right() is true for right-aligned (numeric)
// columns.
std::vector<std::vector<std::string>> duel_rows(const DuelReport& report);
const std::vector<bool>& duel_columns_right();
// Returns the summary line, e.g. "1 slower, 3 same. Gate: FAILED".
std::string duel_summary(const DuelReport& report);

}  // namespace dpbench
