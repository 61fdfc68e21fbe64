#include "harness/front/plan/param_axis.h"

#include <algorithm>

#include "harness/front/plan/selection.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

bool is_valid(const std::string& value) {
  return !value.empty() && value.size() <= 64 && sanitised(value) == value &&
         value.find_first_of(" \n\t/") == std::string::npos;
}

ParamAxis parse_axis(const std::string& text) {
  const std::string shown = "--param '" + one_line(text, 80) + "'";
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(shown + ": write it as NAME=VALUE or STRATEGY.NAME=VALUE");
  ParamAxis axis{.strategy = "", .name = text.substr(0, equals), .values = comma_values(text.substr(equals + 1))};
  if (const size_t dot = axis.name.find('.'); dot != std::string::npos) {
    axis.strategy = axis.name.substr(0, dot);
    axis.name = axis.name.substr(dot + 1);
  }
  if (axis.values.empty() || !std::all_of(axis.values.begin(), axis.values.end(), is_valid))
    throw UsageError(shown + ": values must be 1 to 64 printable characters without space or '/'");
  return axis;
}

bool is_allowed(const std::string& value, const ParamEntry& param) {
  const auto is_word_of = [&](const std::vector<std::string>& words) {
    return std::ranges::find(words, value) != words.end();
  };
  if (param.kind == ParamKind::text) return true;
  if (param.kind == ParamKind::flag) return is_word_of({"on", "off", "true", "false", "1", "0"});
  return is_word_of(param.choices) || (param.numbers && param.numbers->has(value));
}

bool applies(const ParamAxis& axis, const StrategyEntry& strategy) {
  return (axis.strategy.empty() || axis.strategy == strategy.name) && find_entry(strategy.params, axis.name) != nullptr;
}

void refuse_unknown(const ParamAxis& axis, const std::vector<const StrategyEntry*>& chosen) {
  std::vector<std::string> strategies, params;
  for (const StrategyEntry* strategy : chosen) {
    if (applies(axis, *strategy)) return;
    strategies.push_back(strategy->name);
    if (axis.strategy.empty() || axis.strategy == strategy->name)
      for (const auto& param : strategy->params) params.push_back(param.name);
  }
  params = without_repeats(params);  // several strategies can have a parameter of the same name, which counts once
  const bool owner_known = axis.strategy.empty() || std::count(strategies.begin(), strategies.end(), axis.strategy) > 0;
  if (!owner_known)
    throw UsageError("--param " + axis.strategy + "." + axis.name + ": no strategy '" + axis.strategy + "' is chosen" +
                     did_you_mean(axis.strategy, strategies) + "; chosen: " + join(strategies));
  throw UsageError("--param: no chosen strategy has a parameter '" + axis.name + "'" + did_you_mean(axis.name, params) +
                   (params.empty() ? "; there are none" : "; known: " + join(params)));
}

void refuse_wrong_values(const ParamAxis& axis, const std::vector<const StrategyEntry*>& chosen) {
  for (const StrategyEntry* strategy : chosen) {
    if (!applies(axis, *strategy)) continue;
    const ParamEntry& param = *find_entry(strategy->params, axis.name);
    for (const auto& value : axis.values)
      if (!is_allowed(value, param))
        throw UsageError("--param " + strategy->name + "." + axis.name + "=" + value + ": " +
                         (param.choices.empty() ? "not a valid " : "must be one of ") + param.values);
  }
}

}  // namespace

std::vector<ParamAxis> parse_params(const std::vector<std::string>& texts,
                                    const std::vector<const StrategyEntry*>& chosen) {
  std::vector<ParamAxis> axes;
  for (const auto& text : texts) {
    axes.push_back(parse_axis(text));
    refuse_unknown(axes.back(), chosen);
    refuse_wrong_values(axes.back(), chosen);
  }
  return axes;
}

std::vector<ParamValues> combinations(const std::vector<ParamAxis>& axes, const StrategyEntry& strategy) {
  std::vector<ParamValues> all = {{}};
  for (const auto& axis : axes) {
    if (!applies(axis, strategy)) continue;
    const std::string& fallback = find_entry(strategy.params, axis.name)->fallback;
    std::vector<ParamValues> expanded;
    for (const auto& values : all)
      for (const auto& value : axis.values) {
        expanded.push_back(values);
        if (value == fallback)
          expanded.back().erase(axis.name);
        else
          expanded.back()[axis.name] = value;
      }
    all = std::move(expanded);
  }
  return all;
}

}  // namespace dpbench
