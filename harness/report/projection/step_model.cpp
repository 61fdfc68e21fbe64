#include "harness/report/projection/step_model.h"

#include <algorithm>
#include <cstdint>

namespace dpbench {
namespace {

// Returns the predicted time of one collective of the step, in a world (number of replicas).
double seconds_of(const StepShape& shape, const Traffic& one, Algorithm algorithm, int world, const Network& network) {
  Network shared = network;
  shared.intra.bytes_per_s /= shape.copying(world);
  return collective_seconds(one.op, algorithm, world, one.bytes, shared);
}

StepTime time_with(const StepShape& shape, double compute_s, int world, const Network& network, Algorithm algorithm) {
  StepTime time{.computing_s = compute_s * shape.computing(world), .algorithm = algorithm};
  double blocking = 0, end = 0, last = 0;
  int hiding = 0;
  for (const Traffic& one : shape.traffic) {
    const double seconds = seconds_of(shape, one, algorithm, world, network);
    time.communication_s += seconds;
    if (!one.hides) {
      blocking += seconds;
      continue;
    }
    end = std::max(end, one.ready * time.computing_s) + seconds;
    last = seconds;
    ++hiding;
  }
  const double waited = std::max(0.0, end - shape.backward_end * time.computing_s);
  time.exposed_s = blocking + waited;
  time.step_s = time.computing_s + time.exposed_s;
  time.hidden = hiding > 0 && waited <= (hiding > 1 ? last * (1 + 1e-9) : 0);
  return time;
}

}  // namespace

double StepShape::copying(int world) const { return cores > 0 ? std::max(1.0, double(world) * threads / cores) : 1; }

double StepShape::computing(int world) const { return copying(world) * (strong ? fixed + (1 - fixed) / world : 1); }

StepTime step_time(const StepShape& shape, double compute_s, int world, const Network& network,
                   std::optional<Algorithm> algorithm) {
  if (algorithm) return time_with(shape, compute_s, world, network, *algorithm);
  StepTime best = time_with(shape, compute_s, world, network, Algorithm::ring);
  for (const Algorithm other : {Algorithm::tree, Algorithm::hierarchical}) {
    if (other == Algorithm::hierarchical && network.hosts_of(world) < 2) continue;
    const StepTime time = time_with(shape, compute_s, world, network, other);
    if (time.step_s < best.step_s) best = time;
  }
  return best;
}

std::optional<int> first_exposed_world(const StepShape& shape, double compute_s, const Network& network,
                                       std::optional<Algorithm> algorithm, int most) {
  const auto hidden = [&](int world) { return step_time(shape, compute_s, world, network, algorithm).hidden; };
  const int size = network.host_size > 0 ? network.host_size : most;
  const auto whole = [&](int world) { return world <= size ? world : world / size * size; };
  int good = 1;
  for (int64_t reach = 2; reach <= most; reach *= 2) {
    const int world = whole(static_cast<int>(reach));
    if (hidden(world)) {
      good = world;
      continue;
    }
    int exposed = world;  // binary search: communication is hidden in world `good` and exposed in world `exposed`
    for (int middle; (middle = whole(good + (exposed - good) / 2)) > good;) (hidden(middle) ? good : exposed) = middle;
    return exposed;
  }
  return std::nullopt;
}

}  // namespace dpbench
