// Which parameters of a model go unused, on all ranks or on some: worked out before a strategy sees the model.
#pragma once

#include "harness/conform/drive.h"

namespace dpbench {

struct UnusedPattern {
  std::vector<std::string> names;  // unused by at least one rank in some step
  bool some_ranks = false;         // ... while another rank used it
};

UnusedPattern unused_pattern(const Bench& bench);

}  // namespace dpbench
