#include "harness/forecast/project/step_model.h"

#include <algorithm>
#include <cstdint>

#include "harness/forecast/lanes.h"

namespace dpbench {
namespace {

StepTime time_with(const StepShape& shape, double compute_s, int world, const Network& network, Algorithm algorithm) {
  const double computing = compute_s * shape.computing(world);
  const Network shared = network.slowed_inside(shape.copying(world));
  Lanes backward, blocking;
  double last = 0;
  int hiding = 0;
  for (const StepCollective& one : shape.collectives) {
    const double seconds = collective_seconds(one.op, algorithm, world, one.bytes, shared);
    if (!one.hides) {
      blocking.stop_for(seconds);
      continue;
    }
    backward.compute(std::max(0.0, one.ready * computing - backward.computing()));
    backward.transfer(seconds);
    last = seconds;
    ++hiding;
  }
  backward.compute(std::max(0.0, shape.backward_end * computing - backward.computing()));
  backward.wait_for_all();
  const double exposed = blocking.exposed() + backward.exposed();
  return {.step_s = computing + exposed,
          .computing_s = computing,
          .communication_s = blocking.communication() + backward.communication(),
          .exposed_s = exposed,
          .hidden = hiding > 0 && backward.exposed() <= (hiding > 1 ? last * (1 + 1e-9) : 0),
          .algorithm = algorithm};
}

}  // namespace

double StepShape::copying(int world) const { return slowdown_of(world, threads, cores); }

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
    // Binary search for the smallest world with exposed communication: computing hides the communication in world
    // `good`, but not in world `exposed`.
    int exposed = world;
    for (int middle; (middle = whole(good + (exposed - good) / 2)) > good;) (hidden(middle) ? good : exposed) = middle;
    return exposed;
  }
  return std::nullopt;
}

}  // namespace dpbench
