// What ddp lets its user set, read once; and what it promises with those values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench::ddp {

struct Options {
  int64_t bucket_bytes = 0, first_bucket_bytes = 0;
  bool broadcast_buffers = true, bucket_views = true;
  bool find_unused = false, skip_unused = false, static_graph = false;
  std::optional<at::ScalarType> compression = {};  // of the hook
  bool global_mean = false, sync_batch_norm = false;
  bool join = false, divide_by_active = false;
  bool step_in_backward = false;
  std::vector<std::string> ignored = {};  // parameters that stay each rank's own
  bool tf32 = false, graph = false, onednn = false;
};

// Throws UsageError, naming the parameter, for a value that is none or for two that do not go together.
Options options_of(const Params& params);

std::vector<ParamInfo> parameters();
Settings settings();
std::vector<Variant> variants();
void promise(StrategyInfo& info, const Params& params);

}  // namespace dpbench::ddp
