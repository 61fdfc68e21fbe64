#include "strategies/schedule/simulate.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

namespace dpbench::pipeline {
namespace {

// The times at which the inputs of computations have arrived on their rank, for each stage and micro-batch.
using Arrivals = std::vector<std::vector<std::optional<double>>>;

// The kinds of computations, each at the index that is its value.
constexpr std::array computations{Kind::forward, Kind::full_backward, Kind::input_gradient, Kind::weight_gradient};

// A transfer from a stage to the next stage or to the one before. idle_from: when the link between the two ranks is
// idle again.
struct Hop {
  int from = 0, to = 0;  // ranks
  int stage = 0;         // the receiving stage
  double time = 0, latency = 0;
  double* idle_from = nullptr;
};

class Replay {
 public:
  // records: true if the result lists all computations and transfers.
  Replay(const Schedule& schedule, const Costs& costs, bool records)
      : schedule_(schedule), costs_(costs), explicit_(has_transfers(schedule)), records_(records) {
    const std::vector<std::optional<double>> unknown(schedule.microbatches);
    activations_.assign(schedule.stages(), unknown);
    gradients_ = activations_;
    position_.assign(schedule.world(), 0);
    clock_.assign(schedule.world(), 0);
    result_.ranks.resize(schedule.world());
    for (RankTimes& times : result_.ranks) times.first = std::numeric_limits<double>::infinity();
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      if (schedule.is_first(stage)) std::ranges::fill(activations_[stage], 0.0);
      for (const Kind kind : computations) stage_times_.push_back(time_of_stage(stage, kind));
      for (const Kind kind : {Kind::send_activation, Kind::send_gradient}) hops_.push_back(hop_of(stage, kind));
    }
  }

  Simulation run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < schedule_.world(); ++rank)
        while (advance(rank)) moved = true;
    }
    for (int rank = 0; rank < schedule_.world(); ++rank) {
      finish(rank);
      if (position_[rank] < schedule_.ranks[rank].size()) result_.stuck.push_back({rank, position_[rank]});
    }
    return std::move(result_);
  }

 private:
  // Simulates the rank's next action. Returns false if the rank has no more actions or waits for another rank.
  bool advance(int rank) {
    const std::vector<Action>& list = schedule_.ranks[rank];
    if (position_[rank] == list.size()) return false;
    const Action& action = list[position_[rank]];
    const size_t count = action.overlaps_next ? 2 : 1;
    if (is_compute(action.kind) && !compute(rank, std::span(list).subspan(position_[rank], count))) return false;
    if (is_send(action.kind)) transfer(action, clock_[rank]);
    position_[rank] += count;
    return true;
  }

  // Runs one computation, or two that overlap: they start when both have their inputs, and end together.
  bool compute(int rank, std::span<const Action> unit) {
    double start = clock_[rank], time = 0;
    for (const Action& action : unit) {
      const std::optional<double> ready = input(action);
      if (!ready) return false;
      start = std::max(start, *ready);
      time += stage_times_[computations.size() * static_cast<size_t>(action.stage) + static_cast<size_t>(action.kind)];
    }
    if (unit.size() > 1 && costs_.overlapped >= 0) time = costs_.overlapped;
    clock_[rank] = start + time;
    RankTimes& times = result_.ranks[rank];
    times.busy += time;
    times.first = std::min(times.first, start), times.last = clock_[rank];
    for (const Action& action : unit) {
      if (records_) times.computations.push_back({action, start, clock_[rank]});
      pass_on(action, clock_[rank]);
    }
    return true;
  }

  double time_of_stage(int stage, Kind kind) const {
    const auto own = costs_.stage_times.find({stage, kind});
    if (own != costs_.stage_times.end()) return own->second;
    const double time = time_of(costs_, kind);
    return costs_.stage_factors.empty() ? time : time * costs_.stage_factors.at(static_cast<size_t>(stage));
  }

  Hop hop_of(int stage, Kind send) {
    const bool sends = send == Kind::send_activation ? !schedule_.is_last(stage) : !schedule_.is_first(stage);
    if (!sends) return {};
    const Channel channel = channel_of({.kind = send, .stage = stage});
    const std::pair<int, int> ends = {schedule_.rank_of[channel.from], schedule_.rank_of[channel.to]};
    const auto special = costs_.links.find(ends);
    const Link& link = special == costs_.links.end() ? costs_.link : special->second;
    return {.from = ends.first,
            .to = ends.second,
            .stage = channel.to,
            .time = link.bytes_per_time > 0 ? costs_.bytes / link.bytes_per_time : 0,
            .latency = link.latency,
            .idle_from = &link_free_[ends]};
  }

  std::optional<double> input(const Action& action) const {
    if (action.kind == Kind::weight_gradient) return 0;
    const Arrivals& arrivals = action.kind == Kind::forward ? activations_ : gradients_;
    return arrivals[action.stage][action.microbatch];
  }

  // Gives the result of a computation to the stage that needs it. Does nothing if the schedule has a send action for
  // that.
  void pass_on(const Action& action, double end) {
    if (action.kind == Kind::weight_gradient) return;
    const bool forward = action.kind == Kind::forward;
    if (forward && schedule_.is_last(action.stage)) gradients_[action.stage][action.microbatch] = end;
    if (forward ? schedule_.is_last(action.stage) : schedule_.is_first(action.stage)) return;
    const Action send{.kind = forward ? Kind::send_activation : Kind::send_gradient,
                      .stage = action.stage,
                      .microbatch = action.microbatch};
    const int to = channel_of(send).to;
    if (schedule_.rank_of[to] == schedule_.rank_of[action.stage])
      (forward ? activations_ : gradients_)[to][action.microbatch] = end;
    else if (!explicit_)
      transfer(send, end);
  }

  void transfer(const Action& send, double posted) {
    const bool forward = send.kind == Kind::send_activation;
    const Hop& hop = hops_[2 * static_cast<size_t>(send.stage) + (forward ? 0 : 1)];
    *hop.idle_from = std::max(posted, *hop.idle_from) + hop.time;
    const double arrival = *hop.idle_from + hop.latency;
    (forward ? activations_ : gradients_)[hop.stage][send.microbatch] = arrival;
    if (!records_) return;
    result_.ranks[hop.from].transfers.push_back({send, posted, arrival});
    result_.ranks[hop.to].transfers.push_back({counterpart(send), posted, arrival});
  }

  void finish(int rank) {
    RankTimes& times = result_.ranks[rank];
    if (times.first > times.last) times.first = 0;  // a rank without computations
    if (records_) times.live = live_activations(schedule_.ranks[rank]);
    result_.makespan = std::max(result_.makespan, times.last);
  }

  const Schedule& schedule_;
  const Costs& costs_;
  bool explicit_;  // true if the schedule has its own send and receive actions
  bool records_;
  std::vector<double> stage_times_;  // by stage and kind of computation
  std::vector<Hop> hops_;            // by stage: of its activation, then of its gradient
  Arrivals activations_, gradients_;
  std::vector<size_t> position_;
  std::vector<double> clock_;
  std::map<std::pair<int, int>, double> link_free_;
  Simulation result_;
};

}  // namespace

double time_of(const Costs& costs, Kind kind) {
  switch (kind) {
    case Kind::forward:
      return costs.forward;
    case Kind::input_gradient:
      return costs.input_gradient;
    case Kind::weight_gradient:
      return costs.weight_gradient;
    case Kind::full_backward:
      return costs.input_gradient + costs.weight_gradient;
    default:
      return 0;
  }
}

int live_activations(const std::vector<Action>& list) {
  int live = 0, most = 0;
  for (const Action& action : list) {
    if (action.kind == Kind::forward) most = std::max(most, ++live);
    if (ends_weight_gradient(action.kind)) --live;
  }
  return most;
}

Simulation simulate(const Schedule& schedule, const Costs& costs) { return Replay(schedule, costs, true).run(); }

Simulation simulate_spans(const Schedule& schedule, const Costs& costs) { return Replay(schedule, costs, false).run(); }

}  // namespace dpbench::pipeline
