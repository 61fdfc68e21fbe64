#include "harness/report/judge/compare.h"

#include <algorithm>

#include "harness/report/figures/summarise.h"
#include "harness/report/judge/comparable.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

std::string why(const CaseRecord& record) {
  return name_of(record.status) + (record.reason.empty() ? "" : ": " + record.reason);
}

int64_t fewest_launches(const Figure& figure) {
  int64_t fewest = figure.terms.front().moments.n;
  for (const Term& term : figure.terms) fewest = std::min(fewest, term.moments.n);
  return fewest;
}

// True if the rule (e.g. median:5%) can judge the case. A rule on a ratio to the baseline does not apply to the
// baseline case itself, because that ratio is always 1.
bool applies(const GateRule& rule, const CaseSpec& spec) { return !(rule.metric->within_one_run && spec.baseline); }

class Comparer {
 public:
  Comparer(const Report& base, const Report& now, const Gate& gate) : base_(base), now_(now), gate_(gate) {
    base_cases_ = by_id(base);
    result_.base_id = base.id;
    result_.new_id = now.id;
  }

  Comparison run() {
    for (const CaseRecord& record : now_.cases) visit(record);
    const auto now_cases = by_id(now_);
    for (const CaseRecord& record : base_.cases)
      if (!now_cases.contains(record.spec.id)) result_.gone.push_back({record.spec.id, name_of(record.status)});
    return std::move(result_);
  }

 private:
  void visit(const CaseRecord& now) {
    const std::string& id = now.spec.id;
    const auto found = base_cases_.find(id);
    const CaseRecord* base = found == base_cases_.end() ? nullptr : found->second;
    if (now.bad())  // a case that failed or is wrong in the new run fails the gate, even if it did so in the base run
      result_.broken.push_back({id, why(now)});
    else if (!now.ok() && base && !base->ok())
      result_.unmeasured.push_back({id, "not measured in either run: " + why(now)});
    else if (!now.ok() && base)
      result_.unmeasured.push_back({id, "new run: " + why(now)});
    else if (!base || !base->ok())
      visit_without_base(base, now);
    else
      for (const GateRule& rule : gate_.rules_for(id)) {
        if (!applies(rule, now.spec)) continue;
        rule.bound ? judge_bound(base, now, rule) : judge(*base, now, rule);
      }
  }

  // Judges a case that has no result in the base run by the gate's rules with an absolute limit.
  void visit_without_base(const CaseRecord* base, const CaseRecord& now) {
    if (base)
      result_.unmeasured.push_back({now.spec.id, "base run: " + why(*base)});
    else
      result_.added.push_back({now.spec.id, name_of(now.status)});
    if (!now.ok()) return;
    for (const GateRule& rule : gate_.rules_for(now.spec.id))
      if (rule.bound && applies(rule, now.spec)) judge_bound(nullptr, now, rule);
  }

  void judge_bound(const CaseRecord* base, const CaseRecord& now, const GateRule& rule) {
    const auto figure = figure_of(*rule.metric, now_, now);
    if (!figure) return add_unmeasured(now, rule, "new");
    Judgement judgement{.case_id = now.spec.id, .rule = rule, .now = figure->value, .change = {}};
    if (const auto before = base ? figure_of(*rule.metric, base_, *base) : std::nullopt) {
      judgement.base = before->value;
      judgement.base_launches = fewest_launches(*before);
    }
    judgement.change = change_between(*rule.metric, {.value = *rule.bound, .terms = {}}, *figure);
    judgement.new_launches = fewest_launches(*figure);
    judgement.verdict = verdict_of_bound(judgement.change, judgement.new_launches);
    result_.judged.push_back(std::move(judgement));
  }

  void add_unmeasured(const CaseRecord& now, const GateRule& rule, const char* run) {
    result_.unmeasured.push_back({now.spec.id, std::string(rule.metric->name) + " needs " +
                                                   (rule.metric->within_one_run ? "the baseline's row and " : "") +
                                                   "a measured launch in the " + run + " run"});
  }

  void judge(const CaseRecord& base, const CaseRecord& now, const GateRule& rule) {
    const auto before = figure_of(*rule.metric, base_, base), after = figure_of(*rule.metric, now_, now);
    if (!before || !after) return add_unmeasured(now, rule, before ? "new" : "base");
    if (!comparable_figures(*rule.metric, base, now)) {
      result_.unmeasured.push_back(
          {now.spec.id, "reports before schema 1.4 count memory differently: measure the base run again"});
      return;
    }
    Judgement judgement{.case_id = now.spec.id, .rule = rule, .base = before->value, .now = after->value, .change = {}};
    judgement.change = change_between(*rule.metric, *before, *after);
    judgement.base_launches = fewest_launches(*before);
    judgement.new_launches = fewest_launches(*after);
    judgement.verdict =
        verdict_of(judgement.change, rule.limit, std::min(judgement.base_launches, judgement.new_launches));
    result_.judged.push_back(std::move(judgement));
  }

  const Report &base_, &now_;
  const Gate& gate_;
  CaseIndex base_cases_;
  Comparison result_;
};

std::vector<std::string> common_ids(const Report& base, const Report& now) {
  const CaseIndex known = by_id(base);
  std::vector<std::string> ids;
  for (const CaseRecord& record : now.cases)
    if (known.contains(record.spec.id)) ids.push_back(record.spec.id);
  return ids;
}

// True if every rule for these cases can be applied to runs of different machines: its metric is a ratio within one
// run, or its limit is absolute.
bool works_across_machines(const std::vector<std::string>& ids, const Gate& gate) {
  return std::all_of(ids.begin(), ids.end(), [&](const std::string& id) {
    const auto& rules = gate.rules_for(id);
    return std::all_of(rules.begin(), rules.end(),
                       [](const GateRule& rule) { return rule.metric->within_one_run || rule.bound; });
  });
}

// Returns the case patterns of the gate file that have no effect, because earlier patterns match all of their cases.
// Throws UsageError if a pattern matches no case of either run.
std::vector<std::string> unused_patterns(const Report& base, const Report& now, const Gate& gate) {
  std::vector<std::string> unused;
  for (size_t i = 0; i < gate.special.size(); ++i) {
    bool matches = false, decides = false;
    for (const Report* report : {&base, &now})
      for (const CaseRecord& record : report->cases) {
        matches |= gate.special[i].matches(record.spec.id);
        decides |= gate.special_for(record.spec.id) == &gate.special[i];
      }
    const std::string& pattern = gate.special[i].cases;
    if (!matches)
      throw UsageError(
          "the gate file's \"match\": \"" + pattern + "\" matches no case of " + base.id + " or " + now.id +
          ". A * also matches /. Example of an id: " + (now.cases.empty() ? base : now).cases.front().spec.id);
    if (!decides) unused.push_back(pattern);
  }
  return unused;
}

}  // namespace

size_t Comparison::count(Verdict verdict) const {
  return static_cast<size_t>(
      std::count_if(judged.begin(), judged.end(), [&](const Judgement& j) { return j.verdict == verdict; }));
}

Comparison compare(const Report& base, const Report& now, const Gate& gate, bool allow_differences) {
  const auto ids = common_ids(base, now);
  if (ids.empty())
    throw UsageError("nothing to compare: no case of " + now.id + " (" + std::to_string(now.cases.size()) + ") is in " +
                     base.id + " (" + std::to_string(base.cases.size()) + ")");
  const auto unused = unused_patterns(base, now, gate);
  if (!allow_differences) {
    if (!works_across_machines(ids, gate)) require_equal_machines(base, now);
    require_equal_settings(base, now);
  }
  Comparison result = Comparer(base, now, gate).run();
  if (result.judged.empty() && result.broken.empty())
    throw UsageError("nothing was judged: " + (result.unmeasured.empty()
                                                   ? "the gate has no rule for a case of both runs"
                                                   : result.unmeasured[0].case_id + ": " + result.unmeasured[0].why));
  result.unused = unused;
  result.differences = differences_of(base, now);
  return result;
}

Comparison judge_limits(const Report& now, const Gate& gate) {
  const Report none;
  Comparison result = Comparer(none, now, gate).run();
  std::erase_if(result.added, [&](const Unjudged& one) {
    return std::ranges::find(result.judged, one.case_id, &Judgement::case_id) != result.judged.end();
  });
  return result;
}

}  // namespace dpbench
