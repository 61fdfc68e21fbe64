// Two rules that together exclude deadlocks of a pipeline schedule: every rank reaches the end of its list of actions
// if sends have unlimited buffers, and also if they have none. Ranks are advanced in any order; this cannot change the
// result, because an action that can run can still run after other ranks have advanced.
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "strategies/schedule/verify.h"

namespace dpbench::pipeline {
namespace {

class Progress {
 public:
  Progress(const Schedule& schedule, bool buffered)
      : schedule_(schedule), buffered_(buffered), explicit_(has_transfers(schedule)), position_(schedule.world(), 0) {
    for (size_t group = 0; group < schedule.ties.size(); ++group)
      for (const int stage : schedule.ties[group]) group_of_[stage] = group;
  }

  std::vector<Fault> run(Rule rule) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < schedule_.world(); ++rank)
        while (advance(rank)) moved = true;
    }
    for (int rank = 0; rank < schedule_.world(); ++rank)
      if (next(rank)) return {fault(rule, rank)};
    return {};
  }

 private:
  const Action* next(int rank) const {
    const std::vector<Action>& list = schedule_.ranks[rank];
    return position_[rank] < list.size() ? &list[position_[rank]] : nullptr;
  }

  bool advance(int rank) {
    const Action* action = next(rank);
    if (!action || waits_for(rank)) return false;
    const size_t count = action->overlaps_next ? 2 : 1;
    if (is_send(action->kind)) {
      sent_.insert(*action);
      if (!buffered_) ++position_[schedule_.rank_of[counterpart(*action).stage]];
    }
    if (action->kind == Kind::reduce_tied) {
      for (const int peer : tied_ranks(action->stage)) ++position_[peer];
      return true;
    }
    for (const Action& one : std::span(schedule_.ranks[rank]).subspan(position_[rank], count)) done_.insert(plain(one));
    position_[rank] += count;
    return true;
  }

  // Returns the rank that `rank` waits for; nullopt if `rank` can run its next action now. Without buffers, a send and
  // its receive run at the same time and advance both ranks; until then the receive waits for the send.
  std::optional<int> waits_for(int rank) const {
    const Action& action = *next(rank);
    if (action.kind == Kind::reduce_tied) return waits_for_tied(action);
    if (is_receive(action.kind)) {
      if (buffered_ && sent_.contains(counterpart(action))) return std::nullopt;
      return schedule_.rank_of[counterpart(action).stage];
    }
    if (is_send(action.kind)) {
      const Action receive = counterpart(action);
      const int peer = schedule_.rank_of[receive.stage];
      const Action* other = next(peer);
      return buffered_ || (other && *other == receive) ? std::nullopt : std::optional(peer);
    }
    if (const auto blocked = waits_for_input(action)) return blocked;
    return action.overlaps_next ? waits_for_input(schedule_.ranks[rank][position_[rank] + 1]) : std::nullopt;
  }

  std::optional<int> waits_for_tied(const Action& action) const {
    for (const int peer : tied_ranks(action.stage)) {
      const Action* other = next(peer);
      const bool there =
          other && other->kind == Kind::reduce_tied && group_of_.at(other->stage) == group_of_.at(action.stage);
      if (!there) return peer;
    }
    return std::nullopt;
  }

  std::set<int> tied_ranks(int stage) const {
    std::set<int> ranks;
    for (const int one : schedule_.ties[group_of_.at(stage)]) ranks.insert(schedule_.rank_of[one]);
    return ranks;
  }

  // Returns the rank whose result the action needs and does not have yet; nullopt if there is none. If the schedule has
  // sends and receives, checks only results that this rank computes itself. For results of other ranks, another rule
  // (transfer_order) then requires that they are received before the computation that needs them.
  std::optional<int> waits_for_input(const Action& action) const {
    const bool forward = action.kind == Kind::forward, backward = !forward && action.kind != Kind::weight_gradient;
    if (!is_compute(action.kind) || !(forward || backward)) return std::nullopt;
    if (backward && !done_.contains({.kind = Kind::forward, .stage = action.stage, .microbatch = action.microbatch}))
      return schedule_.rank_of[action.stage];
    if (forward ? schedule_.is_first(action.stage) : schedule_.is_last(action.stage)) return std::nullopt;
    const int from = action.stage + (forward ? -1 : 1), rank = schedule_.rank_of[from];
    if (explicit_ && rank != schedule_.rank_of[action.stage]) return std::nullopt;
    const auto has = [&](Kind kind) {
      return done_.contains({.kind = kind, .stage = from, .microbatch = action.microbatch});
    };
    const bool ready = forward ? has(Kind::forward) : has(Kind::full_backward) || has(Kind::input_gradient);
    return ready ? std::nullopt : std::optional(rank);
  }

  static Action plain(Action action) {
    action.overlaps_next = false;
    return action;
  }

  // Returns a fault of the schedule with a text that lists which rank waits for which.
  Fault fault(Rule rule, int rank) const {
    std::string why;
    std::set<int> seen;
    const int first = rank;
    while (next(rank) && seen.insert(rank).second) {
      const int other = waits_for(rank).value_or(rank);
      if (rank != first)
        why += "; rank " + std::to_string(rank) + " at action " + std::to_string(position_[rank]) + ", " +
               text_of(*next(rank)) + ",";
      why += " waits for rank " + std::to_string(other);
      rank = other;
    }
    if (!next(rank)) why += ", which has ended";
    return {rule, first, position_[first], *next(first), why.substr(1)};
  }

  const Schedule& schedule_;
  bool buffered_, explicit_;
  std::vector<size_t> position_;
  std::map<int, size_t> group_of_;
  std::set<Action> done_, sent_;
};

}  // namespace

std::vector<Fault> deadlock_faults(const Schedule& schedule) {
  std::vector<Fault> faults = Progress(schedule, true).run(Rule::deadlock);
  if (!faults.empty() || !has_transfers(schedule)) return faults;
  return Progress(schedule, false).run(Rule::deadlock_unbuffered);
}

}  // namespace dpbench::pipeline
