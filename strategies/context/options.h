// The parameters of context parallelism, and the traffic formula of the strategy "cp".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/params.h"
#include "strategies/api/traffic.h"

namespace dpbench::context {

// How ranks exchange data in attention. ring: keys and values travel from rank to rank. ulysses: each rank has all
// tokens of some heads during attention.
enum class Kind { ring, ulysses };

struct Options {
  std::string owner = "cp";  // the strategy's name, for messages
  Kind kind = Kind::ring;
  // For ring attention: true if each rank has two pieces of the sequence, which balances the work of causal attention.
  bool zigzag = true;
  bool poison = false;
};

std::vector<ParamInfo> parameters();
Options options_of(const Params& params);
std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query);

}  // namespace dpbench::context
