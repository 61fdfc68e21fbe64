#include "harness/forecast/project/step_model.h"

#include <algorithm>
#include <cstdint>

#include "harness/forecast/lanes.h"

namespace dpbench {

double StepShape::copying(int world) const { return slowdown_of(world, threads, cores); }

double StepShape::overlap(int world) const { return overlap_of(world, threads, cores); }

double StepShape::computing(int world) const { return copying(world) * (strong ? fixed + (1 - fixed) / world : 1); }

StepTime step_time(const StepShape& shape, double compute_s, int world, const Network& network,
                   std::optional<Algorithm> algorithm) {
  const double computing = compute_s * shape.computing(world);
  const Network shared = network.slowed_inside(shape.copying(world));
  Lanes backward(shape.overlap(world)), blocking(0);
  Algorithm of_largest = algorithm.value_or(Algorithm::ring);
  double last = 0, largest = 0;
  int hiding = 0;
  for (const StepCollective& one : shape.collectives) {
    const Algorithm used = algorithm ? *algorithm : fastest_algorithm(one.op, world, one.bytes, shared);
    const double seconds = collective_seconds(one.op, used, world, one.bytes, shared);
    if (is_allreduce(one.op) && one.bytes > largest) largest = one.bytes, of_largest = used;
    if (!one.hides) {
      blocking.transfer(seconds);
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
          .algorithm = of_largest};
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
