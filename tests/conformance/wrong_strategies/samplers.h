// Wrong samplers, with the check that must catch each.
#pragma once

#include "harness/conform/judges/judge_sampling.h"

namespace dpbench::wrong {

struct WrongSampler {
  std::string name, killed_by, key_term;
  Deal deal;
};

std::vector<WrongSampler> wrong_samplers();

}  // namespace dpbench::wrong
