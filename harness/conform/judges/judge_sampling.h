// Is every sample dealt out, once, and in another order each epoch? For any sampler: all it has to offer is a function.
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "harness/conform/judges/rows.h"

namespace dpbench {

struct Deal {
  int64_t samples = 0;
  int world = 1;
  bool drop_last = false;  // else padded to equal counts by repeating as few samples as that takes
  std::function<at::Tensor(int64_t epoch, int rank)> ids;
  std::string whose = {};  // the sampler's name, for the rows
};

void judge_sampling(const Deal& deal, Rows& rows);  // data-each-once, epoch-order

}  // namespace dpbench
