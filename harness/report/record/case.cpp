#include "harness/report/record/case.h"

#include <tuple>

namespace dpbench {

std::string case_id(const CaseSpec& spec) {
  std::string id = spec.strategy + "/" + spec.workload + "/" + name_of(spec.device) + ":" + std::to_string(spec.world);
  if (spec.backend != no_backend) id += "/" + spec.backend;
  id += "/" + name_of(spec.scaling) + "/b" + std::to_string(spec.batch) + "/" + name_of(spec.dtype);
  if (spec.runtime != Runtime::torch) id += "/" + name_of(spec.runtime);
  if (!spec.mesh.empty()) id += "/mesh=" + spec.mesh;
  if (!spec.model.empty()) id += "/model=" + spec.model;
  if (spec.scale != 1) id += "/scale=" + std::to_string(spec.scale);
  if (spec.accumulate != 1) id += "/accumulate=" + std::to_string(spec.accumulate);
  if (spec.recompute != 0) id += "/recompute=" + std::to_string(spec.recompute);
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
  if (!spec.model.empty()) text += " · " + spec.model;
  if (spec.scale != 1) text += " · scale " + std::to_string(spec.scale);
  if (spec.accumulate != 1) text += " · " + std::to_string(spec.accumulate) + " micro-batches";
  if (spec.recompute != 0) text += " · recomputes every " + std::to_string(spec.recompute) + " blocks";
  return text;
}

bool same_setting(const CaseSpec& one, const CaseSpec& other, MayDiffer may_differ) {
  const auto common = [](const CaseSpec& s) {
    return std::tie(s.workload, s.device, s.dtype, s.runtime, s.model, s.scale, s.accumulate, s.recompute, s.clip_norm,
                    s.data_dir, s.threads);
  };
  const auto strategy = [](const CaseSpec& s) { return std::tie(s.strategy, s.params, s.backend, s.scaling); };
  return common(one) == common(other) && (may_differ.strategy || strategy(one) == strategy(other)) &&
         (may_differ.batch || one.batch == other.batch) &&
         (may_differ.world || (one.world == other.world && one.mesh == other.mesh));
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

}  // namespace dpbench
