#include "harness/front/cli/options.h"

#include <string>
#include <vector>

#include "harness/report/record/codec.h"

namespace dpbench {
namespace {

Json names_or_all(const std::vector<std::string>& names) { return names.empty() ? Json("all") : Json(names); }

}  // namespace

Json config_json(const MeasuringOptions& options) {
  const Selection& what = options.what;
  Json config = {{"strategies", names_or_all(what.strategies)},
                 {"workloads", names_or_all(what.workloads)},
                 {"gpus", what.gpus},
                 {"cpus", what.cpus},
                 {"meshes", what.meshes},
                 {"batches", what.batches},
                 {"scaling", write_value(what.scaling)},
                 {"dtypes", write_value(what.dtypes)},
                 {"runtimes", write_value(what.runtimes)},
                 {"backends", what.backends},
                 {"params", what.params},
                 {"model", what.model.empty() ? Json(nullptr) : Json(what.model)},
                 {"scale", what.scale},
                 {"accumulate", what.accumulate},
                 {"recompute", what.recompute},
                 {"clip_norm", what.clip_norm ? Json(*what.clip_norm) : Json(nullptr)},
                 {"plugins", what.plugins},
                 {"python", what.python.empty() ? Json(nullptr) : Json(what.python)},
                 {"data_dir", what.data_dir.empty() ? Json(nullptr) : Json(what.data_dir)},
                 {"filter", what.filter.empty() ? Json(nullptr) : Json(what.filter)},
                 {"seed", what.seed},
                 {"threads", what.threads > 0 ? Json(what.threads) : Json(nullptr)},
                 {"oversubscribe", what.oversubscribe},
                 {"baseline", what.baseline},
                 {"reference", what.reference.strategy.empty() ? Json(nullptr) : Json(what.reference.strategy)},
                 {"keep_disturbed", options.keep_disturbed},
                 {"quick", options.quick},
                 {"launches", options.launches},
                 {"sampling", to_json(options.sampling)},
                 {"max_noise_percent", options.max_noise_percent > 0 ? Json(options.max_noise_percent) : Json(nullptr)},
                 {"timeout_s", options.timeout_s},
                 {"retries", options.retries},
                 {"check", name_of(options.check ? Switch::automatic : Switch::off)},
                 {"trace", options.trace},
                 {"tags", options.tags}};
  if (what.reference.batch) config["reference_batch"] = *what.reference.batch;
  return config;
}

}  // namespace dpbench
