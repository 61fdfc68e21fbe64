// Detects that a strategy rounds a tensor to a narrow dtype, even if this changes the parameters by less than their own
// rounding, so that no single element shows it.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "harness/conform/oracle/course.h"

namespace dpbench {

// The parameters of a model, in groups, vote on whether they contain a known mistake. A group, e.g. a row of a matrix,
// votes for it if its errors are correlated with the changes that the mistake causes, and against it if they are
// anticorrelated. The errors of a strategy are not correlated with a mistake that it does not make, so each group is as
// likely to vote for that mistake as against it. This holds even for large errors, e.g. if rounding moves an activation
// across zero. Elements of a row may share an error, so a row has a single vote.
class Votes {
 public:
  // found: a parameter of the strategy. exact: the correct value in float64. stepwise: the correct value if the
  // parameter is rounded to its own dtype after every step. A group votes only if its errors from both values agree: a
  // correct strategy may round in either way, and the direction of that rounding may depend on the same digits of the
  // gradient as the mistake. change: how the mistake changes the parameter. deviation: the standard deviation of each
  // element's error; groups that the mistake changes too little do not vote. rows: the parameter's size in its first
  // dimension; for a vector, each element is a group.
  void add(const at::Tensor& found, const at::Tensor& exact, const at::Tensor& stepwise, const at::Tensor& change,
           const at::Tensor& deviation, int64_t rows);
  // Returns the majority for the mistake, in units of the allowed one; negative if more groups vote against it. By
  // Hoeffding's inequality a correct strategy exceeds 1 with a probability of at most exp(-32).
  double error() const;

  int64_t groups() const { return groups_; }
  int64_t in_favour() const { return in_favour_; }

 private:
  int64_t groups_ = 0, in_favour_ = 0, against_ = 0;
};

// Returns the votes on a mistake by rank 0's parameters at the end of a course. parameters: the strategy's, or those of
// a rounded course. expected: the course in float64.
Votes votes_of(const HiddenRounding& mistake, const NamedTensors& parameters, const Trial& trial,
               const Course& expected);

}  // namespace dpbench
