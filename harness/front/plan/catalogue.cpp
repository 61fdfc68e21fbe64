#include "harness/front/plan/catalogue.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench {
namespace {

enum class LowerLimit { from, above };

}  // namespace

template <>
inline constexpr auto enum_names<LowerLimit> = std::to_array<std::string_view>({"from", "above"});

namespace {

template <Named Enum>
Enum value_of(const Json& json, const char* key) {
  const auto word = json.at(key).get<std::string>();
  if (const auto value = parse_name<Enum>(word)) return *value;
  throw UsageError("not a catalogue of a dpbench worker: " + std::string(key) + " '" + word + "' is none of " +
                   all_names<Enum>());
}

std::vector<ParamEntry> params_from(const Json& json) {
  std::vector<ParamEntry> params;
  for (const auto& param : json)
    params.emplace_back(param.at("name"), param.at("default"), param.value("summary", ""), param.value("values", ""));
  return params;
}

std::string text_of(const Json& value) {
  if (value.is_null() || value.empty()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.is_string() ? value.get<std::string>() : value.dump();
  std::string text;
  for (const auto& one : value) text += (text.empty() ? "" : ", ") + text_of(one);
  return text;
}

std::vector<Declaration> declarations_from(const Json& json) {
  std::vector<Declaration> all;
  for (const auto& one : json) all.push_back({one.at("name"), text_of(one.at("value")), one.at("summary")});
  return all;
}

StrategyEntry strategy_from(const Json& json) {
  return {.name = json.at("name"),
          .summary = json.value("summary", ""),
          .parallelism = value_of<Parallelism>(json, "parallelism"),
          .gradient = json.value("gradient", ""),
          .buffers = json.value("buffers", ""),
          .cpu = json.at("cpu"),
          .cuda = json.at("cuda"),
          .unproven_on_gpu = json.value("unproven_on_gpu", false),
          .axes = json.value("axes", std::vector<std::string>{default_axis}),
          .declares = declarations_from(json.value("declares", Json::array())),
          .params = params_from(json.value("params", Json::array())),
          .python = json.value("python", false)};
}

WorkloadEntry workload_from(const Json& json) {
  const Json samples = json.value("samples", Json());
  return {.name = json.at("name"),
          .summary = json.value("summary", ""),
          .scaling = value_of<Scaling>(json, "scaling"),
          .batch = json.at("batch"),
          .probe = json.value("probe", false),
          .thorough = json.value("thorough", false),
          .digits = json.value("digits", false),
          .models = json.value("models", std::vector<std::string>{}),
          .model_sizes = json.value("model_sizes", ""),
          .drawn_sizes = json.value("drawn_sizes", std::vector<std::vector<std::string>>{}),
          .check_model = json.value("check_model", ""),
          .samples = samples.is_null() ? 0 : samples.get<int64_t>(),
          .plugin = json.value("plugin", false),
          .python = json.value("python", false),
          .experts = json.value("experts", false)};
}

BackendEntry backend_from(const Json& json) {
  return {.name = json.at("name"),
          .summary = json.value("summary", ""),
          .cpu = json.at("cpu"),
          .cuda = json.at("cuda"),
          .unproven_on_gpu = json.value("unproven_on_gpu", false),
          .shares_device = json.value("shares_device", true),
          .threads = json.value("threads", false),
          .cpu_preference = json.value("cpu_preference", 0),
          .cuda_preference = json.value("cuda_preference", 0),
          .shares_memory = json.value("shares_memory", false)};
}

CheckEntry check_from(const Json& json) { return {json.at("name"), json.at("summary")}; }

NotBuilt not_built_from(const Json& json) { return {json.at("kind"), json.at("name"), json.at("reason")}; }

template <class Entry>
std::vector<Entry> all_of(const Json& json, const char* key, Entry (*from)(const Json&)) {
  std::vector<Entry> entries;
  for (const auto& item : json.at(key)) entries.push_back(from(item));
  return entries;
}

// Translates a word for allowed numbers, such as "integer", "integer from 1" or "number above 0", to the range that it
// stands for; nullopt for any other word.
std::optional<AllowedNumbers> allowed_numbers(const std::string& word) {
  const std::vector<std::string> parts = split(word, ' ');
  const auto kind = parts.empty() ? std::nullopt : parse_name<ParamKind>(parts[0]);
  if (kind != ParamKind::integer && kind != ParamKind::number) return std::nullopt;
  AllowedNumbers numbers{.whole = kind == ParamKind::integer};
  if (parts.size() == 1) return numbers;
  const auto limit = parse_name<LowerLimit>(parts[1]);
  const auto least = parts.size() == 3 ? parse_number<double>(parts[2]) : std::nullopt;
  if (!limit || !least) return std::nullopt;
  numbers.range = {.least = *least, .above_least = limit == LowerLimit::above};
  return numbers;
}

}  // namespace

bool AllowedNumbers::has(const std::string& text) const {
  const auto number = parse_number<double>(text);
  if (!number || !std::isfinite(*number) || (whole && !parse_number<int64_t>(text))) return false;
  return range.above_least ? *number > range.least : *number >= range.least;
}

ParamEntry::ParamEntry(std::string name, std::string fallback, std::string summary, const std::string& allowed)
    : name(std::move(name)),
      fallback(std::move(fallback)),
      summary(std::move(summary)),
      kind(allowed.empty() ? ParamKind::text : parse_name<ParamKind>(allowed).value_or(ParamKind::choice)),
      values(kind == ParamKind::text ? name_of(kind) : allowed) {
  if (kind == ParamKind::text) return;
  for (const std::string& word : split(values, '|'))
    if (const auto some = allowed_numbers(word))
      numbers = some;
    else
      choices.push_back(word);
  if (numbers && choices.empty()) kind = numbers->whole ? ParamKind::integer : ParamKind::number;
}

Catalogue catalogue_from_json(const Json& json) {
  try {
    return {.torch = json.at("torch"),
            .cuda = json.value("cuda", ""),
            .nccl = json.value("nccl", ""),
            .strategies = all_of(json, "strategies", strategy_from),
            .workloads = all_of(json, "workloads", workload_from),
            .backends = all_of(json, "backends", backend_from),
            .checks = json.contains("checks") ? all_of(json, "checks", check_from) : std::vector<CheckEntry>(),
            .not_built = all_of(json, "not_built", not_built_from),
            .document = json};
  } catch (const Json::exception& error) {
    throw UsageError(std::string("not a catalogue of a dpbench worker: ") + error.what());
  }
}

const StrategyEntry* baseline_on(Device device, const Catalogue& catalogue) {
  for (const auto& strategy : catalogue.strategies)
    if (strategy.parallelism == Parallelism::single && strategy.runs_on(device)) return &strategy;
  return nullptr;
}

Versions versions_of(const Catalogue& catalogue) {
  return {.torch = catalogue.torch, .cuda = catalogue.cuda, .nccl = catalogue.nccl};
}

std::string why_missing(const Catalogue& catalogue, const NotBuilt& missing) {
  return (catalogue.cuda.empty() ? "not in this build: " : "in this build, but ") + missing.reason;
}

}  // namespace dpbench
