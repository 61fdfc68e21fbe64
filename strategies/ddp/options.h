// The parameters of the strategy ddp, parsed once, and their effect on the properties that it declares (StrategyInfo).
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
  // Dtype in which the communication hook reduces gradients; nullopt: their own dtype.
  std::optional<at::ScalarType> compression = {};
  bool global_mean = false, sync_batch_norm = false;
  bool join = false, divide_by_active = false;
  bool step_in_backward = false;
  std::vector<std::string> ignored = {};  // names of parameters that are local to each rank
  bool tf32 = false, graph = false, onednn = false;
};

// Throws UsageError with the parameter's name for an invalid value or for values that cannot be combined.
Options options_of(const Params& params);

// Throws UsageError if ddp.ignore names a parameter that the model does not train, or all that it trains.
void require_ignorable(const Model& model, const Params& params);

std::vector<ParamInfo> parameters();
Settings settings();
std::vector<Variant> variants();
void promise(StrategyInfo& info, const Params& params);
std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::ddp
