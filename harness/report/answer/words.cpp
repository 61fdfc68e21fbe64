#include "harness/report/answer/words.h"

#include <cmath>
#include <cstdio>

#include "harness/report/figures/summarise.h"

namespace dpbench {
namespace {

std::string decimals(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Shares below 2 % get one decimal, because a rounded 1 % could mean anything from 0.5 % to 1.5 %.
std::string percent_number(double share) { return decimals(100 * share, std::abs(share) < 0.02 ? 1 : 0); }

bool is_the_reference(const Report& report, const CaseRecord& record) {
  return reference_of(report, record.spec) == &record;
}

// True if sentences name the case's speed-up instead of its throughput: if its group is ranked by speed-ups (`paired`),
// or if the speed-up has no interval. False for the reference, because its own speed-up is always 1.
bool speedup_judged(const Report& report, const CaseRecord& record, bool paired) {
  return record.derived.speedup && (paired || !record.derived.speedup_low) && !is_the_reference(report, record);
}

}  // namespace

std::string percent_text(double share) { return percent_number(share) + " %"; }

std::string range_text_of(double low, double high) {
  return percent_number(low) + " to " + percent_number(high) + " %";
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

std::string mebibytes_text(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::string launches_text(int launches) { return std::to_string(launches) + (launches == 1 ? " launch" : " launches"); }

std::string speed_number(const Report& report, const CaseRecord& record, bool paired) {
  const Derived& d = record.derived;
  std::string throughput = decimals(d.samples_per_s.value_or(0), 0) + " samples/s";
  if (is_the_reference(report, record))
    return (record.spec.baseline ? "the baseline (" : "the reference (") + throughput + ")";
  if (!speedup_judged(report, record, paired)) return throughput;
  std::string text = decimals(*d.speedup, 2) + "x";
  if (d.speedup_low && d.speedup_high)
    text += " (" + decimals(*d.speedup_low, 2) + " to " + decimals(*d.speedup_high, 2) + ")";
  return text;
}

std::string speed_text(const Report& report, const CaseRecord& record, bool paired) {
  std::string number = speed_number(report, record, paired);
  if (!speedup_judged(report, record, paired)) return number;
  const std::string reference = reference_name(report);
  return number + " of " + (reference.empty() ? "one device" : reference);
}

std::string longer_text(const Estimate& ratio) {
  if (ratio.middle >= 2)
    return decimals(ratio.middle, 1) + "x the time (" + decimals(ratio.low, 1) + " to " + decimals(ratio.high, 1) +
           "x)";
  return percent_text(ratio.middle - 1) + " more time (" + range_text_of(ratio.low - 1, ratio.high - 1) + ")";
}

}  // namespace dpbench
