// Searches for the largest batch that fits in memory. Each batch that is tried is a case of its own. A batch that runs
// out of memory is a result, not a failure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/run/timed_run.h"

namespace dpbench {

enum class BatchTrial { fits, refused, stop };

// Range of the batches to try.
struct BatchRange {
  int64_t least = 1, most = 1 << 24;
};

// Returns the largest batch that fits, on the assumption that all smaller ones fit too. Doubles or halves `start`, then
// bisects. Returns range.least - 1 if no batch fits. Once `fits` returns BatchTrial::stop, returns the largest batch so
// far.
int64_t largest_batch(int64_t start, BatchRange range, const std::function<BatchTrial(int64_t)>& fits);

// The result of `tune --find-batch` for one planned case.
struct FoundBatch {
  CaseSpec spec;  // the case as planned, with the first batch to try
  std::optional<int64_t> batch;
  double bytes = 0;  // memory at the largest batch that fits, on the rank that uses most
  std::optional<double> samples_per_s;
  std::string limit;  // why a larger batch did not fit or could not run; empty: none was refused
};
// Returns the rows of the table of largest batches: a title row and a row for each case.
std::vector<std::vector<std::string>> found_rows(const std::vector<FoundBatch>& all);

class FindBatchRun : public TimedRun {
 public:
  FindBatchRun(const TuneOptions& options, World* world);

  void plan() override;

 private:
  LoopEnding measure_with(CaseRunner& runner, LaunchLoop::MakeCommand make_command) override;
  std::string output() const override;
  std::vector<std::string> hints() const override { return {}; }

  LoopEnding search(const CaseRecord& planned, CaseRunner& runner, const LaunchLoop::MakeCommand& make_command);
  BatchTrial judge(CaseRecord& record, const LoopEnding& ended, FoundBatch& found) const;

  const double memory_bytes_;  // memory limit of a rank (--memory); 0: all memory of a GPU
  std::vector<FoundBatch> found_;
};

}  // namespace dpbench
