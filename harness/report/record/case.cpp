#include "harness/report/record/case.h"

#include <algorithm>

namespace dpbench {
namespace {

// A setting that ids, names and texts show only if it differs from its default.
struct Setting {
  const char* name;
  std::string value;                     // text of the setting's value; empty for the default value
  const char *before = "", *after = "";  // words before and after the value in the title of a table section
};

auto settings_of(const CaseSpec& spec) {
  const auto unless = [](int64_t usual, int64_t value) { return value == usual ? "" : std::to_string(value); };
  return std::to_array<Setting>({{"model", spec.model},
                                 {"scale", unless(1, spec.scale), "scale "},
                                 {"accumulate", unless(1, spec.accumulate), "", " micro-batches"},
                                 {"recompute", unless(0, spec.recompute), "recomputes every ", " blocks"}});
}

}  // namespace

std::string named_settings(const CaseSpec& spec, char sign) {
  std::string text = spec.mesh.empty() ? "" : std::string("/mesh") + sign + spec.mesh;
  for (const Setting& setting : settings_of(spec))
    if (!setting.value.empty()) text += std::string("/") + setting.name + sign + setting.value;
  return text;
}

std::string case_id(const CaseSpec& spec) {
  std::string id = spec.strategy + "/" + spec.workload + "/" + name_of(spec.device) + ":" + std::to_string(spec.world);
  if (spec.backend != no_backend) id += "/" + spec.backend;
  id += "/" + name_of(spec.scaling) + "/b" + std::to_string(spec.batch) + "/" + name_of(spec.dtype);
  if (spec.runtime != Runtime::torch) id += "/" + name_of(spec.runtime);
  id += named_settings(spec, '=');
  for (const auto& [name, value] : spec.params) id += "/" + name + "=" + value;
  return id;
}

std::string setting_text(const CaseSpec& spec, bool with_batch) {
  std::string text = spec.workload + " · " + (spec.device == Device::cuda ? "GPU" : "CPU") + " · ";
  text += spec.scaling == Scaling::strong ? "strong scaling" : "weak scaling";
  if (with_batch)
    text += spec.scaling == Scaling::strong ? ", global batch " + std::to_string(spec.batch)
                                            : ", " + std::to_string(spec.batch) + " samples per device";
  text += " · " + spec.dtype + " · " + spec.runtime + " runtime · " + std::to_string(spec.threads) +
          (spec.threads == 1 ? " thread" : " threads") + " per replica";
  for (const Setting& setting : settings_of(spec))
    if (!setting.value.empty()) text += std::string(" · ") + setting.before + setting.value + setting.after;
  return text;
}

bool same_setting(const CaseSpec& one, const CaseSpec& other, MayDiffer may_differ) {
  const auto common = [](const CaseSpec& s) {
    return std::tie(s.workload, s.device, s.dtype, s.runtime, s.clip_norm, s.data_dir, s.threads);
  };
  const auto strategy = [](const CaseSpec& s) { return std::tie(s.strategy, s.params, s.backend, s.scaling); };
  return common(one) == common(other) && (may_differ.strategy || strategy(one) == strategy(other)) &&
         (may_differ.batch || one.batch == other.batch) &&
         (may_differ.world || (one.world == other.world && one.mesh == other.mesh)) &&
         std::ranges::equal(settings_of(one), settings_of(other), {}, &Setting::value, &Setting::value);
}

bool is_reference_of(const CaseSpec& candidate, const CaseSpec& spec, const Reference& reference) {
  if (reference.strategy.empty())
    return candidate.baseline && same_setting(candidate, spec, {.strategy = true, .world = true});
  const bool is_itself =
      spec.strategy == reference.strategy && spec.params.empty() && spec.batch == reference.batch.value_or(spec.batch);
  const bool other_backend = candidate.processes > 1 && spec.processes > 1 && candidate.backend != spec.backend;
  return candidate.strategy == reference.strategy && candidate.params.empty() && !other_backend &&
         candidate.batch == reference.batch.value_or(spec.batch) && (!is_itself || candidate.id == spec.id) &&
         same_setting(candidate, spec, {.strategy = true, .batch = true});
}

std::vector<BlockSeries> block_series() {
  std::vector<BlockSeries> all;
  const auto add = [&](const auto& field) {
    if constexpr (std::is_same_v<decltype(field.member), BlockSeries>)
      if (field.per_block) all.push_back(field.member);
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, Table<RankRecord>::fields);
  return all;
}

}  // namespace dpbench
