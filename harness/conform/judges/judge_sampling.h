// Checks that a sampler assigns every sample exactly once per epoch, in a different order each epoch. The sampler is
// any function from epoch and rank to sample ids.
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "harness/conform/judges/rows.h"

namespace dpbench {

struct Deal {
  int64_t samples = 0;
  int world = 1;
  bool drop_last = false;  // false: padded to equal counts with as few repeated samples as possible
  std::function<at::Tensor(int64_t epoch, int rank)> ids;
  std::string sampler = {};  // the sampler's name, for messages
};

void judge_sampling(const Deal& deal, Rows& rows);  // data-each-once, epoch-order

}  // namespace dpbench
