// Searches for the largest batch that fits in a device's memory. Each tried batch is measured as a case of its own; one
// that runs out of memory is a result, not a failure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/run/timed_run.h"

namespace dpbench {

enum class Fit { yes, no, stop };

// Returns the largest batch that fits, if every smaller one fits too: doubles or halves `start`, then bisects. Returns
// 0 if a batch of 1 does not fit. Tries no batch above `most`, and none after a `stop`: then returns the largest so
// far.
int64_t largest_batch(int64_t start, int64_t most, const std::function<Fit(int64_t)>& fits);

// The largest batch of a case that fits.
struct FoundBatch {
  CaseSpec spec;     // with that batch; 0: not even one sample fits
  double bytes = 0;  // memory of the fullest device
  std::optional<double> samples_per_s;
  std::string limit;  // why the next batch does not fit; empty: none was tried
};
// Returns a title row and a row for each case.
std::vector<std::vector<std::string>> found_rows(const std::vector<FoundBatch>& all);

class FindBatchRun : public TimedRun {
 public:
  FindBatchRun(const TuneOptions& options, World* world) : TimedRun(options, world), tune_options_(options) {}

  void plan() override;

 private:
  Start begin() override;
  LoopEnding run_cases() override;
  std::string output() const override;
  std::vector<std::string> hints() const override { return {}; }

  void search(const CaseSpec& spec);
  Fit tried(const CaseSpec& spec, FoundBatch& found);

  const TuneOptions& tune_options_;
  LoopEnding ending_;
  bool stopped_ = false;             // the search of a case ended without a result
  std::vector<CaseRecord> records_;  // of all batches that were tried
  std::vector<FoundBatch> found_;
};

}  // namespace dpbench
