// A training step as computing with collectives beside it: buckets are handed over during backward and reduced one
// after another, and what is not done when computing ends is waited for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/projection/network.h"

namespace dpbench {

struct Traffic {
  std::string op{};
  double bytes = 0;
  double ready = 0;    // the part of a step's computing that is done when it is handed over
  bool hides = false;  // computing goes on meanwhile; else all wait
};

struct StepShape {
  std::vector<Traffic> traffic{};  // in order
  double backward_end = 1;         // the part of a step's computing before the reduced gradients are needed
  bool strong = false;             // more devices, fewer rows on each
  double fixed = 0;                // strong: the part of computing that fewer rows do not shorten
  int threads = 1, cores = 0;      // of a device, of the machine that all devices share; 0: each has its own

  // How much longer than alone on its device, in a world of one, this world computes.
  double computing(int world) const;
  // How much longer bytes take: devices that share cores copy in turn.
  double copying(int world) const;
};

struct StepTime {
  double step_s = 0, computing_s = 0;
  double communication_s = 0;             // all collectives, hidden or not
  double exposed_s = 0;                   // step without computing
  bool hidden = true;                     // at most the last bucket is waited for (the only one: nothing is)
  Algorithm algorithm = Algorithm::ring;  // of the allreduces
};

// algorithm: none takes the one with the shortest step.
StepTime step_time(const StepShape& shape, double compute_s, int world, const Network& network,
                   std::optional<Algorithm> algorithm = std::nullopt);

// The smallest world, whole hosts above one, whose communication is no longer hidden. None up to `most`.
std::optional<int> first_exposed_world(const StepShape& shape, double compute_s, const Network& network,
                                       std::optional<Algorithm> algorithm, int most = 1 << 20);

}  // namespace dpbench
