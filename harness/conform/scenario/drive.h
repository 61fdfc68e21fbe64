// Takes a strategy through a scenario on this rank and writes down what it saw.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/scenario/scenario.h"

namespace dpbench {

// What one rank brings along: the same for every scenario of a case.
struct Bench {
  const StrategyInfo& strategy;  // with what params change in its promises
  const Workload& workload;
  Layout layout;
  int rank = 0;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // only for a strategy of ranks
  std::vector<at::Device> devices;
  ParamValues params;
  uint64_t seed = 1;

  uint64_t init_seed(int of_rank) const { return seed + 7919 * static_cast<uint64_t>(of_rank); }
  uint64_t step_seed() const { return seed ^ 0x5eed; }
};

Evidence drive(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm);

// "rank 1, step 2, scenario even": where the drive ended early.
std::string place_of_error(const Evidence& evidence, const Scenario& scenario);

// Micro-batch `micro` of a step as its owner gets it, poison included.
Batch batch_of(const Workload& workload, const Scenario& scenario, const Layout& layout, const at::Tensor& ids,
               int owner, int64_t step);

// The model that rank 0 begins with, which must then be everyone's.
std::shared_ptr<Model> first_model(const Bench& bench);

}  // namespace dpbench
