// The parameters of a pipeline, and the schedules that it runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strategies/api/params.h"
#include "strategies/schedule/families/families.h"

namespace dpbench::pipeline {

struct Options {
  std::string owner = "pp";  // the strategy's name, for messages
  const Family* family = find_family("1f1b");
  int stages = 1;            // of each rank
  int64_t microbatches = 1;  // parts into which each micro-batch of a step is cut
  std::string blocks;        // blocks of each stage, such as "2+3+1"; empty: evenly
  bool poison = false;       // received tensors hold NaN until they arrive
};

std::vector<ParamInfo> parameters();
// Throws UsageError for values that cannot be combined.
Options options_of(const Params& params);

// Makes the schedule of a step, once for each number of micro-batches.
class Schedules {
 public:
  Schedules(const Options& options, int ranks) : options_(options), ranks_(ranks) {}

  // The rank of each stage, for any number of micro-batches.
  std::vector<int> rank_of_stages() const;
  // With transfers.
  const Schedule& of(int microbatches);

 private:
  Options options_;
  int ranks_;
  std::map<int, Schedule> made_;
};

}  // namespace dpbench::pipeline
