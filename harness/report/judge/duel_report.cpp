#include "harness/report/judge/duel_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/report/judge/gate.h"
#include "harness/report/record/codec.h"

namespace dpbench {
namespace {

using Strings = std::vector<std::string>;

double percent(double log_change) { return 100 * std::expm1(log_change); }

std::string formatted(const char* form, double value) {
  char text[48];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string verdict_word(const DuelCase& record) {
  if (record.ok()) return name_of(record.look.verdict);
  return record.bad() ? "FAILED" : name_of(record.status);
}

// Returns the step time of the base build in milliseconds: the median over all its blocks.
double base_step_ms(const DuelCase& record) {
  std::vector<double> all;
  for (const auto& launch : record.launches)
    for (const DuelPair& pair : launch) all.push_back(static_cast<double>(pair.base_ns));
  return median(all) * 1e-6 / static_cast<double>(record.steps_per_block);
}

std::string notes_of(const DuelCase& record) {
  const auto why = missing_audit(record.new_checks);
  return record.reason.empty() && why ? *why : record.reason;
}

Json look_json(const DuelLook& look) {
  return {{"pairs", look.pairs},
          {"launches", look.launches},
          {"change_percent", percent(look.change)},
          {"ci95_low_percent", percent(look.low)},
          {"ci95_high_percent", percent(look.high)},
          {"noise_percent", 100 * look.noise},
          {"p_slower", look.p_slower},
          {"p_faster", look.p_faster},
          {"p_same", look.p_same}};
}

Json case_json(const DuelCase& record) {
  Json launches = Json::array();
  for (const auto& pairs : record.launches) launches.push_back({{"pairs", write_value(pairs)}});
  Json json = to_json(record.spec);
  json.update({{"status", name_of(record.status)},
               {"reason", record.reason.empty() ? Json(nullptr) : Json(record.reason)},
               {"verdict", record.ok() ? write_value(record.look.verdict) : Json(nullptr)},
               {"look", record.look.pairs > 0 ? look_json(record.look) : Json(nullptr)},
               {"steps_per_block", record.steps_per_block},
               {"launches", std::move(launches)},
               {"base_checks", write_value(record.base_checks)},
               {"new_checks", write_value(record.new_checks)},
               {"warnings", record.warnings}});
  return json;
}

GateResult gate_result(const DuelReport& report) {
  if (report.count(DuelStatus::failed) + report.count(DuelStatus::wrong) + report.count(Verdict::slower) > 0)
    return GateResult::failed;
  return report.inconclusive() ? GateResult::inconclusive : GateResult::passed;
}

}  // namespace

size_t DuelReport::count(Verdict verdict) const {
  return static_cast<size_t>(std::count_if(cases.begin(), cases.end(), [&](const DuelCase& record) {
    return record.ok() && record.look.verdict == verdict;
  }));
}

size_t DuelReport::count(DuelStatus wanted) const {
  return static_cast<size_t>(
      std::count_if(cases.begin(), cases.end(), [&](const DuelCase& record) { return record.status == wanted; }));
}

std::vector<double> log_ratios(const DuelCase& record) {
  std::vector<double> logs;
  for (const auto& launch : record.launches)
    for (const DuelPair& pair : launch)
      logs.push_back(std::log(static_cast<double>(pair.new_ns) / static_cast<double>(pair.base_ns)));
  return logs;
}

Json to_json(const DuelReport& report) {
  Json cases = Json::array();
  for (const DuelCase& record : report.cases) cases.push_back(case_json(record));
  return {{"schema", duel_document},
          {"schema_version", {{"major", 1}, {"minor", duel_minor_version}}},
          {"id", report.id},
          {"status", name_of(report.status)},
          {"order_seed", report.order_seed > 0 ? Json(report.order_seed) : Json(nullptr)},
          {"gate", name_of(gate_result(report))},
          {"tool", report.tool},
          {"env", report.env},
          {"config", report.config},
          {"rule", write_value(report.rule)},
          {"base", write_value(report.base)},
          {"new", write_value(report.now)},
          {"cases", std::move(cases)},
          {"added", report.added},
          {"gone", report.gone}};
}

const std::vector<bool>& duel_columns_right() {
  static const std::vector<bool> right = {false, true, true, true, true, true, true, false, false};
  return right;
}

std::vector<Strings> duel_rows(const DuelReport& report) {
  std::vector<Strings> rows = {{"CASE", "BASE", "NEW", "CHANGE", "95 %", "PAIRS", "NOISE", "VERDICT", "NOTES"}};
  for (const DuelCase& record : report.cases) {
    if (record.look.pairs == 0) {
      rows.push_back({record.spec.id, "-", "-", "-", "-", "-", "-", verdict_word(record), record.reason});
      continue;
    }
    const DuelLook& look = record.look;
    const double base_ms = base_step_ms(record);
    // The median of the new build's blocks is not shown: it can contradict the median change of the pairs.
    const double new_ms = base_ms * std::exp(look.change);
    rows.push_back({record.spec.id, formatted("%.4g ms", base_ms), formatted("%.4g ms", new_ms),
                    formatted("%+.1f %%", percent(look.change)),
                    formatted("[%+.1f, ", percent(look.low)) + formatted("%+.1f]", percent(look.high)),
                    std::to_string(look.pairs), formatted("%.1f %%", 100 * look.noise), verdict_word(record),
                    notes_of(record)});
  }
  for (const auto& id : report.added) rows.push_back({id, "-", "-", "-", "-", "-", "-", "new", ""});
  for (const auto& id : report.gone) rows.push_back({id, "-", "-", "-", "-", "-", "-", "gone", ""});
  return rows;
}

std::string duel_summary(const DuelReport& report) {
  const std::vector<std::pair<size_t, const char*>> counts = {
      {report.count(DuelStatus::failed) + report.count(DuelStatus::wrong), "broken"},
      {report.count(Verdict::slower), "slower"},
      {report.count(Verdict::unclear), "unclear"},
      {report.count(Verdict::faster), "faster"},
      {report.count(Verdict::same), "same"},
      {report.count(DuelStatus::skipped), "skipped"},
      {report.count(DuelStatus::unmeasured), "unmeasured"},
      {report.count(DuelStatus::interrupted), "interrupted"},
      {report.added.size(), "new"},
      {report.gone.size(), "gone"}};
  std::string text;
  for (const auto& [count, what] : counts)
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  return text + ". Gate: " + gate_text(gate_result(report));
}

}  // namespace dpbench
