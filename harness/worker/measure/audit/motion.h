// Checks the steps between two audits of a timed case, and those before the first audit: parameters must move, but not
// further than the optimizer can move them in these steps, and an optimizer with a counter must count these steps.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/sample.h"
#include "harness/conform/judges/judge_course.h"
#include "workloads/api/workload.h"

namespace dpbench {

class Motion {
 public:
  // steps_per_epoch: the number of steps after which the batches repeat. may_skip: the optimizer may leave out steps
  // with a non-finite gradient.
  Motion(const OptimizerSpec& optimizer, int64_t steps_per_epoch, bool may_skip = false)
      : optimizer_(optimizer), steps_per_epoch_(steps_per_epoch), may_skip_(may_skip) {}
  // Called before the first audit: stores some elements of each parameter and the optimizer's step counts, without
  // comparing them. `parameters` and `state` are those before step `next`. The second call measures how fast the
  // parameters moved since the first.
  void look(int64_t next, const NamedTensors& parameters, const NamedTensors& state);
  // Compares the parameters and optimizer state at the start of an audit, before step `first`, with those stored last;
  // compares nothing if none are stored. seen: evidence of the audit, with the whole parameters before its steps.
  // sample: selects the elements of each parameter that `seen` contains after these steps.
  Deviation since_last(int64_t first, const Evidence& seen, const Sample& sample = {});
  // Stores some elements of each parameter after an audit of `steps` steps, which ended before step `next`.
  void remember(int64_t next, int64_t steps, const Evidence& seen, const Sample& sample = {});

 private:
  struct Remembered {
    std::string name;
    at::Tensor indices, values;
    double steps_counted;  // the optimizer's counter of steps; -1: none
  };
  double farthest(int64_t first, int64_t steps, double largest) const;
  // Stores some elements of each parameter and the optimizer's step counts. `parameters` contains the elements of each
  // parameter that `sample` selects; `whole` tells the parameters' full sizes.
  void store(int64_t next, const NamedTensors& parameters, const NamedTensors& state, const NamedTensors& whole,
             const Sample& sample);

  OptimizerSpec optimizer_;
  int64_t steps_per_epoch_;
  bool may_skip_;
  int64_t next_ = -1;
  // Largest distance that an element of a parameter moved in an audit or in the warm-up, divided by the sum of the
  // learning rates.
  double fastest_ = 0;
  std::vector<Remembered> remembered_;
};

}  // namespace dpbench
