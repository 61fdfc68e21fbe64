// A whole training run on one rank, as the documents' programs do it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/report/record/training.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"

namespace dpbench {

struct TrainResult {
  RankRecord record;
  std::vector<CheckRow> checks;  // rank 0 alone
  TrainingRecord training;       // the same on every rank, but for its own clock
};

// What rank 0 says while it goes on: {"event":"line","text":..} of the program, {"event":"progress",..}.
using Say = std::function<void(const Json& event)>;

// Throws UsageError for what can be seen to be wrong before the first step, std::domain_error for a loss that is no
// number.
TrainResult train_case(const CaseSpec& spec, const TrainOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir, const Say& say);

}  // namespace dpbench
