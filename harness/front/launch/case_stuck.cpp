// The part of CaseWatch (which determines the outcome of a running case) that diagnoses hangs: it finds the rank that
// is behind, and mismatched collectives.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/front/launch/case_watch.h"
#include "harness/front/launch/rank_calls.h"
#include "harness/front/text/text.h"

namespace dpbench {
namespace {

std::string seconds(double s) {
  std::string text = std::to_string(s);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace

std::string CaseWatch::different_calls() const {
  std::vector<const RankState*> states;
  std::vector<std::string> names;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    states.push_back(&ranks_[i].state);
    names.push_back(number_and_place(static_cast<int>(i)));
  }
  return dpbench::different_calls(states, names);
}

// Compares all ranks' collectives after every rank has finished the case. Returns an error message; empty if they
// match. Some backends compute wrong numbers for mismatched collectives instead of failing.
std::string CaseWatch::different_calls_at_end() const {
  const Rank& first = ranks_.front();
  const auto other = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.calls != first.calls || rank.calls_hash != first.calls_hash;
  });
  if (other == ranks_.end()) return "";
  if (const std::string known = different_calls(); !known.empty()) return known;
  const int rank = static_cast<int>(other - ranks_.begin());
  const std::string differ = "ranks have called different collectives: " + name_of(0) + " and " + name_of(rank);
  if (other->calls == first.calls) return differ + ", " + std::to_string(first.calls) + " each";
  return differ + ", " + std::to_string(first.calls) + " and " + std::to_string(other->calls);
}

// True if all ranks hang in the same collective and step, so no single rank is to blame.
bool CaseWatch::all_at_same_point() const {
  const RankState& first = ranks_.front().state;
  return ranks_.size() > 1 && first.collectives > 0 && std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
           const RankState& state = rank.state;
           return !rank.answered && std::tuple(state.collectives, state.step, state.beat) ==
                                        std::tuple(first.collectives, first.step, first.beat);
         });
}

// Lists the ranks by their latest collective, for example "; in or after collective #7: rank 0, 2; #6: rank 1". A rank
// that is behind has not entered the collective in which the other ranks wait.
std::string CaseWatch::last_collectives() const {
  std::map<int64_t, std::vector<int>, std::greater<>> ranks_at;
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) ranks_at[ranks_[i].state.collectives].push_back(i);
  if (ranks_at.begin()->first == 0) return "";
  std::string text;
  for (const auto& [number, ranks] : ranks_at) {
    std::vector<std::string> names;
    for (const int rank : ranks) names.push_back(number_and_place(rank));
    text += (text.empty() ? "; in or after collective #" : "; #") + std::to_string(number) + ": " +
            listed_ranks(names) + describe_call(ranks_[ranks.front()].state, number);
  }
  return text;
}

CaseOutcome CaseWatch::hung() const {
  CaseOutcome outcome{.kind = CaseOutcome::Kind::failed, .never_started = !all_ready()};
  std::vector<std::string> missing;
  int stuck = -1;
  const auto key = [&](int rank) {
    const RankState& state = ranks_[rank].state;
    return std::tuple(!state.stopped, ranks_[rank].ready, state.step, state.beat);
  };
  // A rank that is not ready may be missing, or may wait for a missing rank. Only a waiting rank has published
  // heartbeats (RankState::beat). So if some ranks have published none, only those count as missing.
  const bool some_silent =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.ready && rank.state.beat == 0; });
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    if (!ranks_[i].ready && (ranks_[i].state.beat == 0 || !some_silent)) missing.push_back(number_and_place(i));
    if (!ranks_[i].answered && (stuck < 0 || key(i) < key(stuck))) stuck = i;
  }
  const bool stopped = ranks_[stuck].state.stopped;
  const std::string differ = stopped || !missing.empty() ? "" : different_calls();
  const bool nobody = !stopped && missing.empty() && (!differ.empty() || all_at_same_point());
  outcome.culprit = nobody ? -1 : stuck;
  const std::string who = name_of(stuck), where = place_of(stuck);
  const std::string since = "no rank made progress for " + seconds(timeout_s_) + " (--timeout): ";
  if (stopped)
    outcome.reason = since + who + " is stopped" + where;
  else if (!missing.empty())
    outcome.reason = since + std::to_string(ranks_.size() - missing.size()) + " of " + std::to_string(ranks_.size()) +
                     " ranks joined, missing " + join(missing);
  else if (!differ.empty())
    outcome.reason = since + differ;
  else if (nobody)
    outcome.reason = since + "no rank is behind the others" + where;
  else
    outcome.reason = since + who + " is stuck" + where;
  if (!checking_.empty()) outcome.reason += " (" + checking_ + ")";
  outcome.reason += last_collectives();
  return outcome;
}

}  // namespace dpbench
