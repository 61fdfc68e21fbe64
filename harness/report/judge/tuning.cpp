#include "harness/report/judge/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

#include "harness/report/figures/derived.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/judge/duel.h"

namespace dpbench {
namespace {

// Returns the candidates (cases with other parameter values or another batch) of each reference, keyed by the
// reference's case id, in the order of the report. Leaves out cases without a speed-up over the reference and cases
// with a different CaseRecord::means.
std::map<std::string, std::vector<size_t>> candidates(const Report& report, const std::vector<size_t>& which) {
  std::map<std::string, std::vector<size_t>> all;
  for (const size_t i : which) {
    const CaseRecord& record = report.cases[i];
    const CaseRecord* reference = reference_of(report, record.spec);
    if (reference && reference != &record && record.derived.speedup && record.means == reference->means)
      all[reference->spec.id].push_back(i);
  }
  return all;
}

bool is_reference(const Report& report, const CaseRecord& record) {
  return reference_of(report, record.spec) == &record;
}

std::string values_text(const CaseSpec& spec, const CaseSpec& reference) {
  std::string text;
  if (spec.batch != reference.batch) text += " --batch " + std::to_string(spec.batch);
  for (const auto& [name, value] : spec.params) text += " --param " + spec.strategy + "." + name + "=" + value;
  return text.empty() ? "the same values" : text.substr(1);
}

}  // namespace

std::optional<int> judged_from(const Report& report) {
  const auto found = report.config.find(first_judged);
  if (found == report.config.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int>();
}

std::vector<size_t> faster_half(const Report& report, const std::vector<size_t>& which) {
  std::vector<size_t> kept;
  for (const size_t i : which)
    if (is_reference(report, report.cases[i])) kept.push_back(i);
  for (auto& [reference, members] : candidates(report, which)) {
    std::ranges::stable_sort(members, std::greater<>(), [&](size_t i) { return *report.cases[i].derived.speedup; });
    members.resize((members.size() + 1) / 2);
    kept.insert(kept.end(), members.begin(), members.end());
  }
  std::ranges::sort(kept);
  return kept;
}

bool one_is_left(const Report& report, const std::vector<size_t>& which) {
  return std::ranges::all_of(candidates(report, which), [](const auto& setting) { return setting.second.size() == 1; });
}

std::vector<Tuned> tuned(const Report& report, int first) {
  std::vector<Tuned> found;
  std::vector<std::vector<double>> log_ratios;  // for each candidate found: log(its time / default's time) of each pair
  for (const CaseRecord& record : report.cases) {
    const CaseRecord* reference = reference_of(report, record.spec);
    if (!record.ok() || !reference || reference == &record) continue;
    CaseRecord last = record;
    std::erase_if(last.launches, [&](const LaunchRecord& launch) { return launch.index < first; });
    Tuned one{.best = &record, .reference = reference, .id = record.spec.id};
    std::vector<double> logs;
    for (const std::vector<double>& speedups : pair_ratios(last, *reference)) {
      one.launches += !speedups.empty();
      for (const double speedup : speedups) logs.push_back(-std::log(speedup));
    }
    if (logs.empty()) continue;
    found.push_back(std::move(one));
    log_ratios.push_back(std::move(logs));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const DuelLook look = duel_look(log_ratios[i], found[i].launches, DuelRule(), found.size());
    found[i].speedup = std::exp(-look.change);
    found[i].low = std::exp(-look.high);
    found[i].high = std::exp(-look.low);
    found[i].noise = look.noise;
    found[i].pairs = look.pairs;
    found[i].verdict = look.verdict;
  }
  return found;
}

std::string tuned_text(const Tuned& tuned) {
  const CaseSpec& spec = tuned.best->spec;
  char ratio[112], noise[48];
  std::snprintf(ratio, sizeof ratio, "%.2fx (%.2f to %.2f) of the default's speed in %d launches after the choice",
                tuned.speedup, tuned.low, tuned.high, tuned.launches);
  std::snprintf(noise, sizeof noise, ", with %.1f %% noise", 100 * tuned.noise);
  const std::string place = spec.workload + ", world " + std::to_string(spec.world) + ": ";
  const std::string values = values_text(spec, tuned.reference->spec);
  if (tuned.faster()) return place + "use " + values + ": " + ratio;
  if (tuned.verdict == Verdict::unclear)
    return place + "keep the default values; this run cannot tell whether " + values + " is faster: " + ratio + noise;
  return place + "keep the default values; the best candidate, " + values + ", has " + ratio;
}

}  // namespace dpbench
