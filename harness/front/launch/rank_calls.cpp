#include "harness/front/launch/rank_calls.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "harness/front/text/text.h"

namespace dpbench {
namespace {

constexpr size_t max_named_ranks = 8;

struct CallOfRank {
  const Rank* rank;
  const RankCall* call;
};

// Formats a list of ranks, for example "rank 0, 2"; a long list is shortened to "62 ranks".
std::string listed_ranks(const std::vector<std::string>& labels) {
  return labels.size() > max_named_ranks ? std::to_string(labels.size()) + " ranks" : "rank " + join(labels);
}

// Describes the ranks' calls, grouping ranks with equal calls. Returns an empty string if all calls have the same text.
std::string describe_calls(const std::vector<CallOfRank>& calls) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const CallOfRank& one : calls) {
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == one.call->text; });
    auto& group = same == groups.end() ? groups.emplace_back(one.call->text, std::vector<std::string>()) : *same;
    group.second.push_back(one.rank->label);
  }
  if (groups.size() == 1) return "";
  std::string text;
  for (const auto& [call, ranks] : groups) text += (text.empty() ? "" : ", ") + listed_ranks(ranks) + " " + call;
  return text;
}

// Returns a description of the rank's collective with this number, such as " (allreduce of 12 Float (sum))"; empty if
// the collective is no longer in the rank's call log.
std::string describe_call(const RankState& state, int64_t number) {
  for (const RankCall& call : state.calls)
    if (call.group == 0 && call.number == number) return " (" + call.text + ")";
  return "";
}

// True if all ranks hang in the same collective and step, so no single rank is to blame.
bool all_at_same_point(const std::vector<Rank>& ranks) {
  const RankState& first = ranks.front().state;
  return ranks.size() > 1 && first.collectives > 0 && std::all_of(ranks.begin(), ranks.end(), [&](const Rank& rank) {
           const RankState& state = rank.state;
           return !rank.answered && std::tuple(state.collectives, state.step, state.beat) ==
                                        std::tuple(first.collectives, first.step, first.beat);
         });
}

// Lists the ranks by their latest collective, for example "; in or after collective #7: rank 0, 2; #6: rank 1". A rank
// that is behind has not entered the collective in which the other ranks wait.
std::string last_collectives(const std::vector<Rank>& ranks) {
  std::map<int64_t, std::vector<const Rank*>, std::greater<>> ranks_at;
  for (const Rank& rank : ranks) ranks_at[rank.state.collectives].push_back(&rank);
  if (ranks_at.begin()->first == 0) return "";
  std::string text;
  for (const auto& [number, here] : ranks_at) {
    std::vector<std::string> labels;
    for (const Rank* rank : here) labels.push_back(rank->label);
    text += (text.empty() ? "; in or after collective #" : "; #") + std::to_string(number) + ": " +
            listed_ranks(labels) + describe_call(here.front()->state, number);
  }
  return text;
}

// Returns the labels of the ranks that did not join the rendezvous. A rank that is not ready may be missing, or may
// wait for a missing rank. Only a waiting rank has a positive number of heartbeats (Progress::beat). So if some ranks
// have none, only those count as missing.
std::vector<std::string> missing_ranks(const std::vector<Rank>& ranks) {
  const bool some_silent =
      std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return !rank.ready && rank.state.beat <= 0; });
  std::vector<std::string> missing;
  for (const Rank& rank : ranks)
    if (!rank.ready && (rank.state.beat <= 0 || !some_silent)) missing.push_back(rank.label);
  return missing;
}

// Returns the rank that is furthest behind among the ranks that have not completed the case: a stopped process first,
// then one that is not ready.
int furthest_behind(const std::vector<Rank>& ranks) {
  const auto key = [&](int rank) {
    const RankState& state = ranks[rank].state;
    // A rank in the checks has step -1, before and after them 0. Both count as step 0; the heartbeats decide.
    return std::tuple(!state.stopped, ranks[rank].ready, std::max<int64_t>(state.step, 0), state.beat);
  };
  int behind = -1;
  for (int i = 0; i < static_cast<int>(ranks.size()); ++i)
    if (!ranks[i].answered && (behind < 0 || key(i) < key(behind))) behind = i;
  return behind;
}

}  // namespace

std::string name_of(const std::vector<Rank>& ranks, int rank) {
  return ranks.size() == 1 ? "the worker" : "rank " + ranks[rank].label;
}

std::string place_of(const Rank& rank) {
  const std::string in_place = rank.state.place.empty() ? "" : " in " + rank.state.place;
  if (rank.state.step == Progress::in_checks) return in_place;
  return " at step " + std::to_string(rank.state.step) + (in_place.empty() ? "" : "," + in_place);
}

// The call logs hold only the latest collectives of each rank, and ranks may be several collectives apart. So compare
// every collective that is in the call logs of several ranks, the oldest first.
std::string different_calls(const std::vector<Rank>& ranks) {
  std::map<std::pair<uint64_t, int64_t>, std::vector<CallOfRank>> by_group_and_number;
  for (const Rank& rank : ranks)
    for (const RankCall& call : rank.state.calls)
      by_group_and_number[{call.group, call.number}].push_back({&rank, &call});
  for (const auto& [key, calls] : by_group_and_number) {
    const uint64_t hash = calls.front().call->hash;
    if (std::all_of(calls.begin(), calls.end(), [&](const CallOfRank& one) { return one.call->hash == hash; }))
      continue;
    const std::string words = describe_calls(calls), at = "#" + std::to_string(key.second);
    return words.empty() ? "ranks have called different collectives before " + at
                         : "ranks call different collectives (" + at + "): " + words;
  }
  return "";
}

std::string different_calls_at_end(const std::vector<Rank>& ranks) {
  // Per group of ranks that call collectives together: the group's first rank and the digest of that rank's calls, with
  // which the digests of the other ranks are compared.
  std::map<uint64_t, std::pair<int, CallDigest>> first_of_group;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank)
    for (const auto& [group, calls] : ranks[rank].calls) {
      const auto& [first, expected] = first_of_group.try_emplace(group, rank, calls).first->second;
      if (calls == expected) continue;
      if (const std::string known = different_calls(ranks); !known.empty()) return known;
      const std::string differ =
          "ranks have called different collectives: " + name_of(ranks, first) + " and " + name_of(ranks, rank);
      if (calls.count == expected.count) return differ + ", " + std::to_string(calls.count) + " each";
      return differ + ", " + std::to_string(expected.count) + " and " + std::to_string(calls.count);
    }
  return "";
}

Hang hang_of(const std::vector<Rank>& ranks, const std::string& note) {
  const int behind = furthest_behind(ranks);
  const std::string who = name_of(ranks, behind), where = place_of(ranks[behind]);
  const std::string end = note + last_collectives(ranks);
  if (ranks[behind].state.stopped) return {behind, who + " is stopped" + where + end};
  if (const auto missing = missing_ranks(ranks); !missing.empty())
    return {behind, std::to_string(ranks.size() - missing.size()) + " of " + std::to_string(ranks.size()) +
                        " ranks joined, missing " + join(missing) + end};
  if (const std::string differ = different_calls(ranks); !differ.empty()) return {-1, differ + end};
  if (all_at_same_point(ranks)) return {-1, "no rank is behind the others" + where + end};
  return {behind, who + " is stuck" + where + end};
}

}  // namespace dpbench
