// Converts a rank's progress state to and from the JSON that agents (dpbench on other ranks) send to rank 0:
// [step,beat,stopped,collectives,[[number,hash,"call",group],..],"place"].
#pragma once

#include "harness/front/launch/rank_group.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

Json to_json(const RankState& state);
// Parses a rank's state. The fields after `stopped` may be missing: agents of older builds do not send them.
RankState rank_state_from_json(const Json& json);

}  // namespace dpbench
