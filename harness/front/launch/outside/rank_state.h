// A rank's state as an agent tells it: [step,beat,stopped,collectives,[[number,hash,"call"],..]].
#pragma once

#include "harness/front/launch/rank_group.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

Json to_json(const RankState& state);
// Agents of older builds know neither collectives nor calls.
RankState rank_state_from_json(const Json& json);

}  // namespace dpbench
