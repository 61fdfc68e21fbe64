#include "harness/front/launch/outside/rank_state.h"

#include <string>
#include <utility>

#include "harness/front/text/text.h"

namespace dpbench {

Json to_json(const RankState& state) {
  Json calls = Json::array();
  for (const RankCall& call : state.calls) calls.push_back({call.number, call.hash, call.text, call.group});
  return {state.step, state.beat, state.stopped, state.collectives, std::move(calls), state.place};
}

RankState rank_state_from_json(const Json& json) {
  RankState state{.step = json.at(0), .beat = json.at(1), .stopped = json.at(2)};
  if (json.size() > 3) state.collectives = json.at(3);
  if (json.size() > 4)
    for (const Json& call : json.at(4))
      state.calls.push_back({call.at(0), call.at(1), one_line(call.at(2).get<std::string>(), 60), call.at(3)});
  if (json.size() > 5) state.place = one_line(json.at(5).get<std::string>(), sizeof(Progress::place));
  return state;
}

}  // namespace dpbench
