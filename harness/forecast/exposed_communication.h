// The model of time that `dpbench plan` and `dpbench project` share: a rank computes and, beside that, runs one
// collective after another. Times are in seconds.
#pragma once

#include <algorithm>
#include <vector>

namespace dpbench {

// A computation, such as the backward pass of a layer, and its collectives. 0: it has no such collective.
struct Computation {
  double gather_s = 0;  // collective that ends before the computation starts; it is issued with the previous one
  double compute_s = 0;
  double reduce_s = 0;  // collective of the computation's result
};

// Returns the time of the collectives that the computations, which run in this order, do not hide. A collective begins
// when it is issued and all earlier ones have ended. overlap: share of each collective's time that computation may
// overlap; the rest delays the end.
inline double exposed_communication_s(const std::vector<Computation>& computations, double overlap) {
  double now = 0, link_free = 0, computing = 0, delay = 0;
  const auto transfer = [&](double seconds) {
    link_free = std::max(link_free, now) + overlap * seconds;
    delay += (1 - overlap) * seconds;
    return link_free;
  };
  const auto gather = [&](size_t i) {  // returns the time at which computation i has what it gathers
    return i < computations.size() && computations[i].gather_s > 0 ? transfer(computations[i].gather_s) : 0;
  };
  double ready = gather(0);
  for (size_t i = 0; i < computations.size(); ++i) {
    now = std::max(now, ready);
    ready = gather(i + 1);
    now += computations[i].compute_s;
    computing += computations[i].compute_s;
    transfer(computations[i].reduce_s);
  }
  return std::max(now, link_free) - computing + delay;
}

}  // namespace dpbench
