#include "strategies/schedule/lower.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

struct Event {
  double time;
  bool starts;  // true for the start of a computation; at the same time, transfers come before it
  int rank;
  Action action;
};

class Lowering {
 public:
  Lowering(const Schedule& compute, const Costs& costs) : schedule_(compute), times_(simulate(compute, costs)) {
    check(times_.stuck.empty(), "lower() needs a schedule that does not deadlock");
  }

  Schedule run() {
    for (int rank = 0; rank < schedule_.world(); ++rank)
      for (const Timed& one : times_.ranks[rank].computations) {
        events_.push_back({one.start, true, rank, one.action});
        add_transfer(one);
      }
    add_tied_reductions();
    std::ranges::stable_sort(events_, [](const Event& a, const Event& b) {
      return a.time != b.time ? a.time < b.time : a.starts < b.starts;
    });
    Schedule lowered = schedule_;
    for (auto& list : lowered.ranks) list.clear();
    for (const Event& event : events_) append(lowered.ranks[event.rank], event.action);
    lowered.receive_slots = needed_receive_slots(lowered);
    return lowered;
  }

 private:
  void add_transfer(const Timed& one) {
    const Action& action = one.action;
    if (action.kind == Kind::weight_gradient) return;
    const bool forward = action.kind == Kind::forward;
    if (forward ? !schedule_.sends_activation(action.stage) : !schedule_.sends_gradient(action.stage)) return;
    const Action send{.kind = forward ? Kind::send_activation : Kind::send_gradient,
                      .stage = action.stage,
                      .microbatch = action.microbatch};
    const Action receive = counterpart(send);
    events_.push_back({one.end, false, schedule_.rank_of[send.stage], send});
    events_.push_back({one.end, false, schedule_.rank_of[receive.stage], receive});
  }

  // Appends an action. A receive goes before the last computation of the list, so that it is already posted when the
  // tensor is sent during this computation. It never goes before another transfer: the order of a rank's transfers
  // stays that of the simulation.
  static void append(std::vector<Action>& list, const Action& action) {
    auto at = list.end();
    if (is_receive(action.kind) && !list.empty() && is_compute(list.back().kind)) {
      --at;
      if (at != list.begin() && std::prev(at)->overlaps_next) --at;
    }
    list.insert(at, action);
  }

  // For each group of stages that share parameters: adds a reduction of the shared gradients on each of their ranks,
  // after the last weight gradient of the group.
  void add_tied_reductions() {
    for (const auto& group : schedule_.ties) {
      double ready = 0;
      std::map<int, int> first_stage_of_rank;
      for (const int stage : group) {
        const int rank = schedule_.rank_of[stage];
        first_stage_of_rank.try_emplace(rank, stage);
        first_stage_of_rank[rank] = std::min(first_stage_of_rank[rank], stage);
        for (const Timed& one : times_.ranks[rank].computations)
          if (one.action.stage == stage && ends_weight_gradient(one.action.kind)) ready = std::max(ready, one.end);
      }
      for (const auto& [rank, stage] : first_stage_of_rank)
        events_.push_back({ready, false, rank, {.kind = Kind::reduce_tied, .stage = stage}});
    }
  }

  const Schedule& schedule_;
  Simulation times_;
  std::vector<Event> events_;
};

bool consumes(const Action& computation, Kind receive) {
  if (receive == Kind::receive_activation) return computation.kind == Kind::forward;
  return computation.kind == Kind::full_backward || computation.kind == Kind::input_gradient;
}

}  // namespace

int needed_receive_slots(const Schedule& schedule) {
  int most = 0;
  for (const auto& list : schedule.ranks) {
    std::set<Action> waiting;  // receives whose tensors no computation has used yet
    std::map<Channel, int> held;
    for (const Action& action : list) {
      if (is_receive(action.kind)) {
        waiting.insert(action);
        most = std::max(most, ++held[channel_of(action)]);
      }
      for (const Kind kind : {Kind::receive_activation, Kind::receive_gradient}) {
        const Action receive{.kind = kind, .stage = action.stage, .microbatch = action.microbatch};
        if (consumes(action, kind) && waiting.erase(receive) > 0) --held[channel_of(receive)];
      }
    }
  }
  return most;
}

Schedule lower(const Schedule& compute, const Costs& costs) { return Lowering(compute, costs).run(); }

}  // namespace dpbench::pipeline
