// The parameters and the traffic formula of context parallelism.
#pragma once

#include <string>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/params.h"
#include "strategies/api/traffic.h"
#include "strategies/parts/rank_share.h"
#include "workloads/api/sequence_split.h"

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

// Returns the traffic of a step over the mesh axis cp. plan: the model's plan, with the heads of this rank. cp: the
// axis; its group is not used.
std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const SequencePlan& plan,
                             const Axis& cp, const RankShare& share);

}  // namespace dpbench::context
