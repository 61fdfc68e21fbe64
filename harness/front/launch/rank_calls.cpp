#include "harness/front/launch/rank_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "harness/front/text/text.h"

namespace dpbench {
namespace {

constexpr size_t max_named_ranks = 8;

struct CallOfRank {
  size_t rank;
  const RankCall* call;
};

// Describes the ranks' calls, grouping ranks with equal calls. Returns an empty string if all calls have the same text.
std::string describe_calls(const std::vector<CallOfRank>& calls, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const CallOfRank& one : calls) {
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == one.call->text; });
    auto& group = same == groups.end() ? groups.emplace_back(one.call->text, std::vector<std::string>()) : *same;
    group.second.push_back(names[one.rank]);
  }
  if (groups.size() == 1) return "";
  std::string text;
  for (const auto& [call, ranks] : groups) text += (text.empty() ? "" : ", ") + listed_ranks(ranks) + " " + call;
  return text;
}

}  // namespace

std::string listed_ranks(const std::vector<std::string>& names) {
  return names.size() > max_named_ranks ? std::to_string(names.size()) + " ranks" : "rank " + join(names);
}

// Ranks may be several collectives apart, and each rank remembers only its latest ones. Therefore this function
// compares every collective that several ranks still remember, starting with the oldest.
std::string different_calls(const std::vector<const RankState*>& states, const std::vector<std::string>& names) {
  std::map<int64_t, std::vector<CallOfRank>> by_number;
  for (size_t rank = 0; rank < states.size(); ++rank)
    for (const RankCall& call : states[rank]->calls) by_number[call.number].push_back({rank, &call});
  for (const auto& [number, calls] : by_number) {
    const uint64_t hash = calls.front().call->hash;
    if (std::all_of(calls.begin(), calls.end(), [&](const CallOfRank& one) { return one.call->hash == hash; }))
      continue;
    const std::string words = describe_calls(calls, names), at = "#" + std::to_string(number);
    return words.empty() ? "ranks have called different collectives before " + at
                         : "ranks call different collectives (" + at + "): " + words;
  }
  return "";
}

std::string describe_call(const RankState& state, int64_t number) {
  for (const RankCall& call : state.calls)
    if (call.number == number) return " (" + call.text + ")";
  return "";
}

}  // namespace dpbench
