// A rank's state in an agent's message: [step,beat,stopped,collectives,[[number,hash,"call"],..]].
#pragma once

#include "harness/front/launch/rank_group.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

Json to_json(const RankState& state);
// Accepts messages without collectives and calls, from agents of older builds.
RankState rank_state_from_json(const Json& json);

}  // namespace dpbench
