// The parameters of tensor parallelism, and the traffic formula of the strategy "tp".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/params.h"
#include "strategies/api/traffic.h"

namespace dpbench::tensor {

struct Options {
  std::string owner = "tp";  // the strategy's name, for messages
  // True: activations between the divided layers are cut along the sequence (sequence parallelism).
  bool sequence = false;
  // Number of parts into which a matrix product is cut; the sum over ranks of one part overlaps with the next part.
  int64_t chunks = 1;
  bool verify = false;
};

std::vector<ParamInfo> parameters();
// Throws UsageError for a value that is out of range.
Options options_of(const Params& params);
std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::tensor
