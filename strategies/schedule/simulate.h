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
  // Time of a forward pass together with the backward pass that overlaps it. Negative: the sum of both times.
  double overlapped = -1;
  std::vector<double> stage_factors = {};  // for each stage, a factor on the times above; empty: all factors are 1
  // Times of single computations, by stage and kind of computation; used instead of the times and factors above.
  std::map<std::pair<int, Kind>, double> stage_times = {};
  double bytes = 0;  // bytes of one activation, and of its gradient
  Link link = {};
  std::map<std::pair<int, int>, Link> links = {};  // exceptions to `link`, by sending and receiving rank
};

double time_of(const Costs& costs, Kind kind);

struct Timed {
  Action action;
  double start = 0, end = 0;
};

struct RankTimes {
  std::vector<Timed> computations;
  std::vector<Timed> transfers;  // sends and receives of this rank, from the post of the send to its arrival
  double busy = 0;
  double first = 0, last = 0;  // start of the first computation, end of the last
  int live = 0;  // highest number of live activations: forward passes that still lack their weight gradient

  double span_bubble() const { return last - first - busy; }
};

// A rank that waits for ever, and the position of the action that cannot run.
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

// Simulates a schedule. If has_transfers(schedule), a transfer is posted when the sending rank reaches the send;
// otherwise when the computation of its data ends. The transfer starts when it is posted, or later once its link is
// free.
Simulation simulate(const Schedule& schedule, const Costs& costs = {});

// Returns the highest number of live activations in a rank's list of actions.
int live_activations(const std::vector<Action>& list);

}  // namespace dpbench::pipeline
