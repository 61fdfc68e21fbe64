// Which parameters of a model go unused, on all ranks or on some: worked out before a strategy sees the model.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct UnusedPattern {
  std::vector<std::string> names;  // unused by at least one rank in some step
  bool some_ranks = false;         // ... while another rank used it
};

UnusedPattern unused_pattern(const Bench& bench);

// A look at the first rows alone, of a model that is not small: do they give every parameter a gradient, on each rank
// and in each step?
bool all_used_at_first(const Bench& bench);

// Does one replica's or rank's pass use other parameters than another's, or than an earlier one?
bool graph_changes(const Bench& bench);

}  // namespace dpbench
