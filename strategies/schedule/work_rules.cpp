// Rules about the computations of a pipeline schedule: each runs once, on its rank, after the computations that it
// needs; a stage's computations of a kind are in micro-batch order; and a rank keeps no more live activations than
// declared.
#include <algorithm>
#include <map>
#include <utility>

#include "strategies/schedule/verify.h"

namespace dpbench::pipeline {
namespace {

using Positions = std::map<Action, size_t>;

// Returns the action without its flag overlaps_next, for lookups that ignore the flag.
Action plain(Action action) {
  action.overlaps_next = false;
  return action;
}

// True if the action's stage and micro-batch exist.
bool is_known(const Schedule& schedule, const Action& action) {
  if (action.stage < 0 || action.stage >= schedule.stages()) return false;
  return !has_microbatch(action.kind) || (action.microbatch >= schedule.first_microbatch(action.stage) &&
                                          action.microbatch < schedule.end_microbatch(action.stage));
}

void check_known(const Schedule& schedule, std::vector<Fault>& faults) {
  const std::string size = "the schedule has " + std::to_string(schedule.stages()) + " stages and " +
                           std::to_string(schedule.microbatches) + " micro-batches" +
                           (schedule.pipelines > 1 ? ", half of them in each direction" : "");
  for (int rank = 0; rank < schedule.world(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i)
      if (const Action& action = schedule.ranks[rank][i]; !is_known(schedule, action))
        faults.push_back({Rule::unknown_work, rank, i, action, size});
}

void check_placement(const Schedule& schedule, std::vector<Fault>& faults) {
  std::vector<int> held(schedule.world(), 0);
  for (const int rank : schedule.rank_of) ++held[rank];
  for (int stage = 0; stage < schedule.stages(); ++stage)
    if (const int rank = schedule.rank_of[stage]; held[rank] != held[0])
      faults.push_back(
          {Rule::placement,
           rank,
           std::nullopt,
           {.stage = stage},
           "the rank has " + std::to_string(held[rank]) + " stages, rank 0 has " + std::to_string(held[0])});
  for (int rank = 0; rank < schedule.world(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i)
      if (const Action& action = schedule.ranks[rank][i]; schedule.rank_of[action.stage] != rank)
        faults.push_back({Rule::placement, rank, i, action,
                          "the stage lies on rank " + std::to_string(schedule.rank_of[action.stage])});
}

// Returns the first position of each computation in a rank's list of actions. A computation that occurs again is added
// to `faults`.
Positions first_positions(const Schedule& schedule, int rank, std::vector<Fault>& faults) {
  Positions positions;
  for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
    const Action action = plain(schedule.ranks[rank][i]);
    if (!is_compute(action.kind)) continue;
    const auto [first, fresh] = positions.try_emplace(action, i);
    if (!fresh)
      faults.push_back(
          {Rule::repeated_work, rank, i, action, "action " + std::to_string(first->second) + " is the same"});
  }
  return positions;
}

void check_complete(int rank, int stage, int microbatch, const Positions& positions, std::vector<Fault>& faults) {
  const auto has = [&](Kind kind) {
    return positions.contains({.kind = kind, .stage = stage, .microbatch = microbatch});
  };
  const auto missing = [&](Kind kind, const std::string& why) {
    faults.push_back(
        {Rule::missing_work, rank, std::nullopt, {.kind = kind, .stage = stage, .microbatch = microbatch}, why});
  };
  const bool full = has(Kind::full_backward), input = has(Kind::input_gradient), weight = has(Kind::weight_gradient);
  if (!has(Kind::forward)) missing(Kind::forward, "never runs");
  if (!full && !input && !weight) missing(Kind::full_backward, "never runs");
  if (input && !weight && !full) missing(Kind::weight_gradient, "never runs: the weights lose this micro-batch");
  if (weight && !input && !full) missing(Kind::input_gradient, "never runs, but its weight gradient does");
  for (const Kind half : {Kind::input_gradient, Kind::weight_gradient}) {
    const Action action{.kind = half, .stage = stage, .microbatch = microbatch};
    if (full && has(half))
      faults.push_back({Rule::repeated_work, rank, positions.at(action), action, "the full backward pass includes it"});
  }
}

// Returns the computations on the same rank that must come before the given computation.
std::vector<Action> needed_before(const Schedule& schedule, const Action& action, const Positions& positions) {
  const int stage = action.stage, microbatch = action.microbatch;
  const auto work = [&](Kind kind, int of) { return Action{.kind = kind, .stage = of, .microbatch = microbatch}; };
  const auto backward = [&](int of) {
    const bool full = positions.contains(work(Kind::full_backward, of));
    return work(full ? Kind::full_backward : Kind::input_gradient, of);
  };
  const auto neighbour_here = [&](int of) { return schedule.rank_of[of] == schedule.rank_of[stage]; };
  std::vector<Action> before;
  if (action.kind == Kind::weight_gradient) return {work(Kind::input_gradient, stage)};
  if (action.kind == Kind::forward) {
    if (!schedule.is_first(stage) && neighbour_here(stage - 1)) before.push_back(work(Kind::forward, stage - 1));
    return before;
  }
  before.push_back(work(Kind::forward, stage));
  if (!schedule.is_last(stage) && neighbour_here(stage + 1)) before.push_back(backward(stage + 1));
  return before;
}

void check_order(const Schedule& schedule, int rank, std::vector<Fault>& faults) {
  const std::vector<Action>& list = schedule.ranks[rank];
  std::vector<Fault> none;
  const Positions positions = first_positions(schedule, rank, none);
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].overlaps_next &&
        (i + 1 == list.size() || (list[i + 1].kind != Kind::full_backward && list[i + 1].kind != Kind::input_gradient)))
      faults.push_back({Rule::work_order, rank, i, list[i], "it is to overlap a backward pass, but none follows"});
    if (!is_compute(list[i].kind)) continue;
    for (const Action& before : needed_before(schedule, list[i], positions))
      if (const size_t at = positions.at(before); at > i)
        faults.push_back({Rule::work_order, rank, i, list[i],
                          "it needs " + text_of(before) + ", which comes later, as action " + std::to_string(at)});
  }
}

// Forward passes update BatchNorm's running statistics. An input gradient of a split backward pass adds the gradients
// of biases, norms and embeddings. A full backward pass counts as an input gradient and as a weight gradient.
void check_gradient_order(const Schedule& schedule, int rank, std::vector<Fault>& faults) {
  std::map<std::pair<int, Kind>, Action> last;  // the most recent computation of each stage and kind
  for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
    const Action& action = schedule.ranks[rank][i];
    std::optional<Action> later;  // an earlier action of a later micro-batch
    for (const Kind kind : {Kind::forward, Kind::input_gradient, Kind::weight_gradient}) {
      if (action.kind != kind && (action.kind != Kind::full_backward || kind == Kind::forward)) continue;
      const auto [found, first] = last.try_emplace({action.stage, kind}, action);
      if (!first && found->second.microbatch > action.microbatch) later = found->second;
      found->second = action;
    }
    if (later)
      faults.push_back(
          {Rule::gradient_order, rank, i, action, text_of(*later) + " of a later micro-batch runs before"});
  }
}

void check_live(const Schedule& schedule, int rank, std::vector<Fault>& faults) {
  if (schedule.live_limits.empty()) return;
  int live = 0;
  for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
    const Action& action = schedule.ranks[rank][i];
    if (ends_weight_gradient(action.kind)) --live;
    if (action.kind != Kind::forward || ++live <= schedule.live_limits[rank]) continue;
    faults.push_back({Rule::live_activations, rank, i, action,
                      "it is live activation " + std::to_string(live) + ", declared are " +
                          std::to_string(schedule.live_limits[rank])});
    return;
  }
}

}  // namespace

std::vector<Fault> work_faults(const Schedule& schedule) {
  std::vector<Fault> faults;
  check_known(schedule, faults);
  if (!faults.empty()) return faults;
  check_placement(schedule, faults);
  if (!faults.empty()) return faults;
  std::vector<Positions> positions;
  for (int rank = 0; rank < schedule.world(); ++rank) positions.push_back(first_positions(schedule, rank, faults));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (int i = schedule.first_microbatch(stage); i < schedule.end_microbatch(stage); ++i)
      check_complete(schedule.rank_of[stage], stage, i, positions[schedule.rank_of[stage]], faults);
  return faults;
}

std::vector<Fault> order_faults(const Schedule& schedule) {
  std::vector<Fault> faults;
  for (int rank = 0; rank < schedule.world(); ++rank) {
    check_order(schedule, rank, faults);
    check_gradient_order(schedule, rank, faults);
    check_live(schedule, rank, faults);
  }
  return faults;
}

}  // namespace dpbench::pipeline
