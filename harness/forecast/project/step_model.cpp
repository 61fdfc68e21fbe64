#include "harness/forecast/project/step_model.h"

#include <algorithm>
#include <cstdint>

#include "harness/forecast/exposed_communication.h"

namespace dpbench {

double StepShape::copying(int world) const { return slowdown_of(world, threads, cores); }

double StepShape::overlap(int world) const { return overlap_of(world, threads, cores); }

double StepShape::computing(int world) const { return copying(world) * (strong ? fixed + (1 - fixed) / world : 1); }

StepTime step_time(const StepShape& shape, double compute_s, int world, const Network& network,
                   std::optional<Algorithm> algorithm) {
  const double computing = compute_s * shape.computing(world);
  const Network shared = network.slowed_inside(shape.copying(world));
  std::vector<Computation> backward;
  double computed_s = 0, blocking_s = 0, overlapped_s = 0, largest = 0;
  // Adds the computing up to this fraction of the step's computing, and a reduction that starts after it.
  const auto compute_until = [&](double fraction, double reduce_s) {
    backward.push_back({.compute_s = std::max(0.0, fraction * computing - computed_s), .reduce_s = reduce_s});
    computed_s += backward.back().compute_s;
  };
  Algorithm of_largest = algorithm.value_or(Algorithm::ring);
  for (const StepCollective& one : shape.collectives) {
    const Algorithm used = algorithm ? *algorithm : fastest_algorithm(one.op, world, one.bytes, shared);
    const double seconds = collective_seconds(one.op, used, world, one.bytes, shared);
    if (is_allreduce(one.op) && one.bytes > largest) largest = one.bytes, of_largest = used;
    (one.hides ? overlapped_s : blocking_s) += seconds;
    if (one.hides) compute_until(one.ready, seconds);
  }
  const size_t hiding = backward.size();
  const double last = hiding > 1 ? backward.back().reduce_s : 0;
  compute_until(shape.backward_end, 0);
  const double late_s = exposed_communication_s(backward, shape.overlap(world));
  return {.step_s = computing + (blocking_s + late_s),
          .computing_s = computing,
          .communication_s = blocking_s + overlapped_s,
          .exposed_s = blocking_s + late_s,
          .hidden = hiding > 0 && late_s <= last * (1 + 1e-9),
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
