#include "harness/report/judge/compare_output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/report/judge/compare_document.h"
#include "harness/report/record/codec.h"

namespace dpbench {
namespace {

std::string number(const char* form, double value) {
  char text[48];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string figure(const Metric& metric, double value) {
  return number("%.4g ", value * metric.display_scale) + metric.display_unit;
}

// Returns the change for display, positive if the metric's value rose: in percentage points if the metric is judged in
// points, else in percent (+7.2 for a time or throughput that rose by 7.2 %).
double shown_change(const Metric& metric, double change) {
  const double own = metric.larger_is_worse ? change : -change;
  return metric.in_points ? own : 100 * std::expm1(own);
}

const char* unit_of(const Metric& metric) { return metric.in_points ? " points" : " %"; }

struct Range {
  double low, high;
};
Range shown_interval(const Judgement& j) {
  const double a = shown_change(*j.rule.metric, j.change.low), b = shown_change(*j.rule.metric, j.change.high);
  return {std::min(a, b), std::max(a, b)};
}

std::string interval_text(const Judgement& j) {
  if (!std::isfinite(j.change.low)) return "-";
  const auto [low, high] = shown_interval(j);
  return number("[%+.1f, ", low) + number("%+.1f]", high);
}

std::string verdict_word(const Judgement& j) {
  if (j.rule.bound && j.verdict != Verdict::unclear) return j.verdict == Verdict::slower ? "BEYOND" : "within";
  switch (j.verdict) {
    case Verdict::slower:
      return j.rule.metric->worse;
    case Verdict::faster:
      return j.rule.metric->better;
    case Verdict::same:
      return "same";
    case Verdict::unclear:
      break;
  }
  return "unclear";
}

std::string note_on(const Judgement& j) {
  const bool bound = j.rule.bound.has_value();
  if (j.verdict != Verdict::unclear) return bound ? "the change is from the limit" : "";
  if (bound && j.new_launches < launches_for_t)
    return std::to_string(j.new_launches) + (j.new_launches == 1 ? " launch" : " launches") + ", at least " +
           std::to_string(launches_for_t) + " are needed";
  if (bound) return "the interval contains the limit. Use more launches, or reduce the noise";
  const int64_t fewest = std::min(j.base_launches, j.new_launches);
  if (fewest < launches_to_judge)
    return std::to_string(fewest) + (fewest == 1 ? " launch" : " launches") + ", at least " +
           std::to_string(launches_to_judge) + " are needed";
  return "the interval contains the limit. Use more launches, or reduce the noise";
}

JudgedRow judged_row(const Judgement& j) {
  const Metric& metric = *j.rule.metric;
  const double scale = metric.display_scale;
  JudgedRow row{.case_id = j.case_id, .metric = metric.name, .rule = j.rule.text, .unit = metric.display_unit};
  if (j.base) row.base = *j.base * scale;
  if (j.rule.bound) row.limit = *j.rule.bound * scale;
  row.now = j.now * scale;
  (metric.in_points ? row.change_points : row.change_percent) = shown_change(metric, j.change.estimate);
  if (std::isfinite(j.change.low)) {
    const auto [low, high] = shown_interval(j);
    (metric.in_points ? row.low_points : row.low_percent) = low;
    (metric.in_points ? row.high_points : row.high_percent) = high;
  }
  row.base_launches = j.base_launches, row.new_launches = j.new_launches;
  row.verdict = verdict_word(j), row.failed = j.verdict == Verdict::slower;
  return row;
}

GateResult gate_result(const Comparison& comparison) {
  if (comparison.failed()) return GateResult::failed;
  return comparison.inconclusive() ? GateResult::inconclusive : GateResult::passed;
}

// Escapes the characters with a special meaning in GitHub's workflow commands.
std::string command_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '%')
      escaped += "%25";
    else if (c == '\n')
      escaped += "%0A";
    else if (c == '\r')
      escaped += "%0D";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

const std::vector<bool>& compare_columns_right() {
  static const std::vector<bool> right = {false, false, true, true, true, true, false, false};
  return right;
}

std::vector<std::vector<std::string>> compare_rows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows = {{"CASE", "RULE", "BASE", "NEW", "CHANGE", "95 %", "VERDICT", "NOTES"}};
  for (const Judgement& j : comparison.judged)
    rows.push_back({j.case_id, j.rule.text, j.base ? figure(*j.rule.metric, *j.base) : "-",
                    figure(*j.rule.metric, j.now),
                    number("%+.1f", shown_change(*j.rule.metric, j.change.estimate)) + unit_of(*j.rule.metric),
                    interval_text(j), verdict_word(j), note_on(j)});
  const auto add = [&](const std::vector<Unjudged>& cases, const char* verdict) {
    for (const Unjudged& m : cases) rows.push_back({m.case_id, "-", "-", "-", "-", "-", verdict, m.why});
  };
  add(comparison.broken, "FAILED");
  add(comparison.unmeasured, "unclear");
  add(comparison.added, "new");
  add(comparison.gone, "gone");
  return rows;
}

Json compare_json(const Comparison& comparison) {
  CompareDocument document{.base_id = comparison.base_id, .new_id = comparison.new_id, .gate = gate_result(comparison)};
  for (const Judgement& j : comparison.judged) document.judged.push_back(judged_row(j));
  document.broken = comparison.broken, document.unmeasured = comparison.unmeasured;
  document.added = comparison.added, document.gone = comparison.gone;
  document.differences = comparison.differences;
  return write_document(document);
}

std::string compare_summary(const Comparison& comparison) {
  const std::vector<std::pair<size_t, const char*>> counts = {
      {comparison.broken.size(), "broken"},
      {comparison.count(Verdict::slower), "worse"},
      {comparison.count(Verdict::unclear) + comparison.unmeasured.size(), "unclear"},
      {comparison.count(Verdict::faster), "better"},
      {comparison.count(Verdict::same), "same"},
      {comparison.added.size(), "new"},
      {comparison.gone.size(), "gone"}};
  std::string text;
  for (const auto& [count, what] : counts)
    if (count > 0) text.append(text.empty() ? "" : ", ").append(std::to_string(count)).append(" ").append(what);
  return text + ". Gate: " + gate_text(gate_result(comparison));
}

std::vector<std::string> compare_notes(const Comparison& comparison) {
  std::vector<std::string> notes;
  for (const std::string& pattern : comparison.unused)
    notes.push_back("the gate file's \"match\": \"" + pattern +
                    "\" has no effect: earlier patterns match all its cases");
  for (const Difference& d : comparison.differences) notes.push_back(d.field + ": " + d.base + " -> " + d.now);
  return notes;
}

std::vector<std::string> github_annotations(const Comparison& comparison) {
  std::vector<std::string> lines;
  const auto add = [&](const char* kind, const std::string& title, const std::string& text) {
    lines.push_back(std::string("::") + kind + " title=dpbench " + title + "::" + command_text(text));
  };
  for (const Judgement& j : comparison.judged) {
    if (j.verdict == Verdict::same || j.verdict == Verdict::faster) continue;
    add(j.verdict == Verdict::slower ? "error" : "warning", verdict_word(j),
        j.case_id + " " + number("%+.1f", shown_change(*j.rule.metric, j.change.estimate)) + unit_of(*j.rule.metric) +
            " " + interval_text(j) + ", rule " + j.rule.text);
  }
  for (const Unjudged& m : comparison.broken) add("error", "FAILED", m.case_id + ": " + m.why);
  for (const Unjudged& m : comparison.unmeasured) add("warning", "unclear", m.case_id + ": " + m.why);
  return lines;
}

}  // namespace dpbench
