// Wrong samplers (mistakes in distributing samples over ranks), each with the check that must catch it.
#pragma once

#include "harness/conform/judges/judge_sampling.h"

namespace dpbench::wrong {

struct WrongSampler {
  std::string name, killed_by, key_term;
  Deal deal;
};

std::vector<WrongSampler> wrong_samplers();

}  // namespace dpbench::wrong
