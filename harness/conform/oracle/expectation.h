// Computes the expected result of one step with the oracle (reference computation), from the state that the strategy
// reported before that step.
#pragma once

#include <optional>

#include "harness/conform/oracle/trial.h"

namespace dpbench {

class Expectation {
 public:
  // exact: compute in float64; otherwise in the scenario's dtype. `trial` must outlive this object.
  Expectation(const Trial& trial, bool exact);
  const Oracle& oracle() const { return oracle_; }
  ExpectedStep at_step(int64_t step);

 private:
  const Trial& trial_;
  Oracle oracle_;
  std::optional<Oracle> whole_, single_, single_on_device_;
};

}  // namespace dpbench
