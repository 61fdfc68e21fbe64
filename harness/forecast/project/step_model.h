// Model of a training step: gradient buckets become ready during the backward pass and are reduced one after another,
// overlapped with computing. All other communication does not overlap and is added to the step time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/forecast/network.h"

namespace dpbench {

struct StepCollective {
  std::string op{};
  double bytes = 0;
  double ready = 0;    // fraction of the step's computing that is done when this collective can start
  bool hides = false;  // true: the collective overlaps with computing; false: computing waits for it
};

struct StepShape {
  std::vector<StepCollective> collectives{};  // collectives of a step, in order
  // Fraction of the step's computing that comes before the optimizer needs the reduced gradients.
  double backward_end = 1;
  bool strong = false;  // true for strong scaling: with more devices, each has fewer samples
  // Strong scaling only: fraction of world 1's computing that stays although the samples per device shrink.
  double fixed = 0;
  int threads = 1;  // threads per device
  int cores = 0;    // number of cores that all devices share; 0: each device has its own

  // Returns the computing time of a step in this world, relative to world 1.
  double computing(int world) const;
  // Returns the factor by which copying slows down in this world, because devices that share cores copy in turn.
  double copying(int world) const;
  // Returns the share of a collective in the backward pass that computing may overlap in this world: 0 if the ranks use
  // all cores, else 1. The share measured on GPUs, which `dpbench plan` uses, would subtract hidden communication
  // twice, because the fitted step times already exclude it.
  double overlap(int world) const;
};

struct StepTime {
  double step_s = 0, computing_s = 0;
  double communication_s = 0;  // time of all collectives, overlapped or not
  double exposed_s = 0;        // step_s - computing_s: communication that is not hidden by computing
  // True if a step has reductions that overlap with computing, and computing hides them. The last of several may be
  // exposed.
  bool hidden = true;
  Algorithm algorithm = Algorithm::ring;  // algorithm of the largest allreduce
};

// Predicts the time of a step. If `algorithm` is unset, each allreduce uses the fastest.
StepTime step_time(const StepShape& shape, double compute_s, int world, const Network& network,
                   std::optional<Algorithm> algorithm = std::nullopt);

// Returns the smallest world (number of replicas) in which computing no longer hides the reductions, or nullopt if it
// hides them in all worlds up to `most`. Tries only worlds on one host and worlds that fill all their hosts.
std::optional<int> first_exposed_world(const StepShape& shape, double compute_s, const Network& network,
                                       std::optional<Algorithm> algorithm, int most = 1 << 20);

}  // namespace dpbench
