#include "harness/report/judge/gate.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "harness/report/record/fields.h"
#include "harness/report/record/find_run.h"

namespace dpbench {
namespace {

constexpr size_t gate_max_bytes = size_t{1} << 20;
constexpr const char* default_rule = "median:5%";

std::string known_metrics() {
  std::string names;
  for (const Metric& metric : metrics()) {
    if (!names.empty()) names += ", ";
    names += metric.name;
  }
  return names;
}

// Converts a rule's limit, a share (0.05 for 5 %), to a log ratio: log(1 + share) if larger values of the metric are
// worse, else -log(1 - share).
double log_limit(const Metric& metric, double share) {
  return metric.larger_is_worse ? std::log1p(share) : -std::log1p(-share);
}

std::string unit_names(const Metric& metric) {
  std::string names;
  for (const LimitUnit& unit : metric.units)
    names += (names.empty() ? "" : ", ") + std::string(*unit.name ? unit.name : "none");
  return names;
}

// Parses the limit of a rule on the new run alone, such as "<0.5ms".
GateRule parse_bound(const Metric& metric, const std::string& text, const std::string& limit) {
  const char side = metric.larger_is_worse ? '<' : '>';
  const std::string example = std::string(metric.name) + ":" + side + "20" + metric.units.back().name,
                    start = "--fail-on '" + text + "': ";
  if (limit[0] != side)
    throw UsageError(start + "a limit on " + metric.name + " is " + (side == '<' ? "an upper" : "a lower") +
                     " one, as in '" + example + "'");
  double number = 0;
  const auto [end, error] = std::from_chars(limit.data() + 1, limit.data() + limit.size(), number);
  if (error != std::errc{} || !(number > 0) || !std::isfinite(number))
    throw UsageError(start + "the limit must be a number above 0, as in '" + example + "'");
  const std::string name(end, limit.data() + limit.size());
  for (const LimitUnit& unit : metric.units)
    if (name == unit.name) return {&metric, text, 0, number * unit.size};
  throw UsageError(start + "the unit of " + metric.name + " is one of " + unit_names(metric) + ", as in '" + example +
                   "'");
}

std::vector<GateRule> parse_rules(const std::vector<std::string>& texts) {
  std::vector<GateRule> rules;
  for (const std::string& text : texts) {
    std::istringstream pieces(text + ',');  // an empty text is one empty piece, which is refused
    for (std::string piece; std::getline(pieces, piece, ',');) rules.push_back(parse_rule(piece));
  }
  return rules;
}

std::vector<std::string> texts_of(const Fields& fields) {
  fields.at("fail_on");  // throws if the gate file lacks the key fail_on; an empty list is valid
  return list_of<std::string>(fields, "fail_on");
}

void allow_only(const Json& json, const std::vector<std::string>& keys, const std::string& path) {
  for (const auto& [key, value] : json.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw UsageError(path + " has the unknown key '" + key + "'. Known keys: " + keys[0] + ", " + keys[1]);
}

}  // namespace

GateRule parse_rule(const std::string& text) {
  const size_t colon = text.find(':');
  const Metric* metric = find_metric(text.substr(0, colon));
  if (!metric) throw UsageError("--fail-on '" + text + "': unknown figure. Use one of " + known_metrics());
  const std::string example = std::string(metric->name) + (metric->in_points ? ":3 (percentage points)" : ":5%");
  if (colon == std::string::npos) throw UsageError("--fail-on '" + text + "' has no limit. Example: " + example);
  const std::string limit = text.substr(colon + 1);
  if (limit.starts_with('<') || limit.starts_with('>')) return parse_bound(*metric, text, limit);
  double number = 0;
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), number);
  const std::string unit(end, limit.data() + limit.size());
  const bool sound = error == std::errc{} && unit == (metric->in_points ? "" : "%") && number > 0 && number < 100;
  if (!sound) throw UsageError("--fail-on '" + text + "': the limit must be above 0 and below 100, as in " + example);
  return {metric, text, metric->in_points ? number : log_limit(*metric, number / 100), std::nullopt};
}

bool Gate::Special::matches(const std::string& case_id) const {
  return ::fnmatch(cases.c_str(), case_id.c_str(), 0) == 0;
}

const Gate::Special* Gate::special_for(const std::string& case_id) const {
  const auto found =
      std::find_if(special.begin(), special.end(), [&](const Special& entry) { return entry.matches(case_id); });
  return found == special.end() ? nullptr : &*found;
}

const std::vector<GateRule>& Gate::rules_for(const std::string& case_id) const {
  const Special* entry = special_for(case_id);
  return entry ? entry->rules : rules;
}

bool Gate::has_limits() const {
  const auto any_limit = [](const std::vector<GateRule>& some) {
    return std::ranges::any_of(some, [](const GateRule& rule) { return rule.bound.has_value(); });
  };
  return any_limit(rules) || std::ranges::any_of(special, any_limit, &Special::rules);
}

Gate make_gate(const std::vector<std::string>& fail_on) {
  return {.special = {}, .rules = parse_rules(fail_on.empty() ? std::vector<std::string>{default_rule} : fail_on)};
}

Gate read_gate(const std::filesystem::path& file) {
  const Json json = parse_json(read_text(file, gate_max_bytes), file.string());
  const Fields fields(json, file.string());
  allow_only(json, {"fail_on", "cases"}, file.string());
  Gate gate;
  gate.rules = parse_rules(texts_of(fields));
  fields.each("cases", [&](const Json& entry, const std::string& path) {
    const Fields special(entry, path);
    allow_only(entry, {"match", "fail_on"}, path);
    gate.special.push_back({special.get<std::string>("match"), parse_rules(texts_of(special))});
  });
  return gate;
}

}  // namespace dpbench
