// Simulates a pipeline schedule: when each computation starts and ends, and how long each rank is idle.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "strategies/schedule/schedule.h"

namespace dpbench::pipeline {

// A link between two ranks. A transfer takes latency + bytes / bytes_per_time, and the next transfer can start after
// bytes / bytes_per_time. Transfers overlap with computations. By default, transfers take no time.
struct Link {
  double latency = 0;
  double bytes_per_time = 0;  // bandwidth in bytes per unit of time; 0: unlimited
};

// Times of one stage for one micro-batch, in any unit. A full backward pass takes input_gradient + weight_gradient.
struct Costs {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  // Time of a forward pass and a backward pass that overlap. If negative, the sum of the times of both is taken.
  double overlapped = -1;
  // For each stage, a factor by which the times of its computations are multiplied; empty: all factors are 1.
  std::vector<double> stage_factors = {};
  // Times of computations by stage and kind. An entry replaces the time that the other members give for this stage and
  // kind.
  std::map<std::pair<int, Kind>, double> stage_times = {};
  double bytes = 0;  // size in bytes of one activation, and also of its gradient
  Link link = {};
  // Links with other properties than `link`, by sending and receiving rank.
  std::map<std::pair<int, int>, Link> links = {};
};

double time_of(const Costs& costs, Kind kind);

struct Timed {
  Action action;
  double start = 0, end = 0;
};

struct RankTimes {
  std::vector<Timed> computations;
  // Sends and receives of this rank, each from the time when the send is posted to the arrival of the tensor.
  std::vector<Timed> transfers;
  double busy = 0;
  double first = 0, last = 0;  // start of this rank's first computation, and end of its last
  int live = 0;  // highest number of live activations (those of forward passes that still lack their weight gradient)

  double span_bubble() const { return last - first - busy; }
};

// A rank of a deadlocked schedule: it waits for ever at the action at this position of its list.
struct Stuck {
  int rank = 0;
  size_t position = 0;
};

struct Simulation {
  std::vector<RankTimes> ranks;
  double makespan = 0;
  std::vector<Stuck> stuck;  // ranks that wait for ever; empty unless the schedule deadlocks

  double step_bubble(int rank) const { return makespan - ranks[rank].busy; }
};

// Simulates a schedule. A transfer is posted when the sending rank reaches its send action, or, in a schedule without
// sends, when the computation of its tensor ends. It starts when it is posted or, if its link is busy then, as soon as
// the link is free.
Simulation simulate(const Schedule& schedule, const Costs& costs = {});
// Does the same in a fraction of the time, but leaves the lists of computations and transfers empty, and `live` 0.
Simulation simulate_spans(const Schedule& schedule, const Costs& costs = {});

// Returns the highest number of live activations in a rank's list of actions.
int live_activations(const std::vector<Action>& list);

}  // namespace dpbench::pipeline
