// The parameters of pipeline parallelism, and the schedules of its steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/mesh.h"
#include "strategies/api/params.h"
#include "strategies/schedule/families/families.h"

namespace dpbench::pipeline {

struct Options {
  std::string owner = "pp";  // the strategy's name, for messages
  const Family* family = find_family("1f1b");
  // The schedule in the user's file, verified; if set, the schedule that `family` generates is not used.
  std::optional<Schedule> given = {};
  int stages = 1;            // number of stages of each rank
  int64_t microbatches = 1;  // number of parts into which each micro-batch of a step is cut
  std::string blocks = {};   // number of blocks in each stage, such as "2+3+1"; empty: balanced by FLOP
  bool poison = false;       // true: received tensors hold NaN until they arrive, for tests
};

std::vector<ParamInfo> parameters();
// Throws UsageError for an invalid value, or for values that cannot be combined.
Options options_of(const Params& params);

// Makes and caches the pipeline schedule of a step, one for each number of micro-batches.
class Schedules {
 public:
  // Throws UsageError if the user's schedule is for another number of ranks.
  Schedules(const Options& options, int ranks);

  // Returns the rank of each stage, which is the same for any number of micro-batches.
  std::vector<int> rank_of_stages() const;
  // Returns the schedule for this number of micro-batches, with its transfers. Throws UsageError if the user's schedule
  // is for another number of micro-batches.
  const Schedule& of(int microbatches);

  // Throws std::runtime_error if this rank's schedule, cut of the model or cut of micro-batches differs from that of
  // rank 0 of the axis. The message names the first difference. Collective.
  void require_same_on_all_ranks(const Axis& axis, at::Device device) const;

 private:
  Schedule computations_of(int microbatches) const;

  Options options_;
  int ranks_;
  std::map<int, Schedule> made_;
};

}  // namespace dpbench::pipeline
