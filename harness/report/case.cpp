#include "harness/report/case.h"

namespace dpbench {

std::string case_id(const CaseSpec& spec) {
  std::string id = spec.strategy + "/" + spec.workload + "/" + spec.device + ":" + std::to_string(spec.world);
  if (spec.backend != "none") id += "/" + spec.backend;
  id += "/" + spec.scaling + "/b" + std::to_string(spec.batch) + "/" + spec.dtype;
  if (spec.scale != 1) id += "/scale=" + std::to_string(spec.scale);
  if (spec.accumulate != 1) id += "/accumulate=" + std::to_string(spec.accumulate);
  for (const auto& [name, value] : spec.params) id += "/" + name + "=" + value;
  return id;
}

}  // namespace dpbench
