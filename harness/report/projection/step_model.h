// Model of a training step: buckets become ready during the backward pass and are reduced one after another, overlapped
// with computing. The rest of the communication is exposed after the backward pass.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/projection/network.h"

namespace dpbench {

struct Traffic {
  std::string op{};
  double bytes = 0;
  double ready = 0;    // fraction of the step's computing done when it becomes ready
  bool hides = false;  // overlaps with computing; otherwise it blocks
};

struct StepShape {
  std::vector<Traffic> traffic{};  // in order
  double backward_end = 1;         // fraction of the step's computing before the reduced gradients are needed
  bool strong = false;             // strong scaling: more devices, fewer samples on each
  double fixed = 0;                // strong scaling: fraction of computing that does not shrink with the samples
  int threads = 1;                 // per device
  int cores = 0;                   // shared by all devices; 0: each device has its own

  // Returns the computing time of this world relative to world 1.
  double computing(int world) const;
  // Returns the slowdown of copying: devices that share cores copy in turn.
  double copying(int world) const;
};

struct StepTime {
  double step_s = 0, computing_s = 0;
  double communication_s = 0;             // all collectives, overlapped or not
  double exposed_s = 0;                   // step_s - computing_s
  bool hidden = true;                     // only the last bucket is exposed, or, with a single bucket, nothing
  Algorithm algorithm = Algorithm::ring;  // of the allreduces
};

// If algorithm is unset, the one with the shortest step is used.
StepTime step_time(const StepShape& shape, double compute_s, int world, const Network& network,
                   std::optional<Algorithm> algorithm = std::nullopt);

// Returns the smallest world in which communication is no longer hidden, or nullopt if it is hidden up to `most`.
// Beyond one host, only whole hosts count.
std::optional<int> first_exposed_world(const StepShape& shape, double compute_s, const Network& network,
                                       std::optional<Algorithm> algorithm, int most = 1 << 20);

}  // namespace dpbench
