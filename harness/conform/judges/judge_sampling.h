// Checks that a sampler assigns every sample once per epoch, apart from the remainder (see Deal::drop_last), and in a
// different order in each epoch. The sampler is a function that returns sample ids for an epoch and rank.
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "harness/conform/judges/rows.h"

namespace dpbench {

struct Deal {
  int64_t samples = 0;
  int world = 1;
  // If the samples do not divide evenly by `world`, true drops the remaining samples, and false pads the ranks to equal
  // counts with as few repeated samples as possible.
  bool drop_last = false;
  std::function<at::Tensor(int64_t epoch, int rank)> ids;
  std::string sampler = {};  // the sampler's name for error messages
};

void judge_sampling(const Deal& deal, Rows& rows);  // runs the checks data-each-once and epoch-order

}  // namespace dpbench
