// Keeps a case loaded between its timed blocks, so that its blocks can alternate with those of another case or build.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "harness/report/machine/gpu_watch.h"
#include "harness/worker/measure/audit/audit.h"
#include "harness/worker/steps/step_timer.h"

namespace dpbench {

class TimedCase {
 public:
  // Creates the case's strategy and runs its warm-up, including the steps of recording_steps().
  TimedCase(const CaseSpec& spec, const Sampling& sampling, const Group& group, Pulse& pulse,
            const std::string& shared_dir);
  const std::string& case_id() const { return spec_.id; }
  // Returns the results of the audits on rank 0; no rows without audits.
  std::vector<CheckRow> audits() const;
  // Times one block of steps, after one or two untimed steps. By chance, an audit with untimed steps of its own comes
  // first. If sampling.steps is 0, the number of steps follows from rank 0's step time in the warm-up, so that a block
  // lasts about sampling.min_sample_s or longer.
  RankRecord block(const Sampling& sampling);
  // Finishes the strategy. Collective: every rank must call it, after the last block.
  void finish();
  // Audits the last steps, at least one if always_audited is true, otherwise by chance, and finishes the strategy.
  // Returns the case's record without block times. blocks: numbers, from 0, of the blocks from which the percentiles of
  // single step times are computed. Collective.
  RankRecord end(const std::vector<size_t>& blocks, bool always_audited);
  // After end(): profiles extra steps of a new instance and, if sampling.measure_peak is set, measures the machine's
  // peak. Adds both to the record. retake: profile once more if a rank had to wait for CPU cores during its profile,
  // the replicas do not share cores and --max-time allows it. Collective.
  void profile(const Sampling& sampling, bool retake, RankRecord& record);

 private:
  double warm_step_ns(int64_t steps);
  void rewarm(int64_t coming_steps);
  void call_accessors();
  std::string read_results();
  bool profile_lacked_cores(const RankRecord& record) const;
  RankRecord figures() const;

  CaseSpec spec_;
  std::vector<std::string> own_;  // names of parameters that are not synchronized between ranks
  const Group& group_;
  Pulse& pulse_;
  std::unique_ptr<Workload> workload_;
  StepSource source_;
  int64_t tensors_before_;  // bytes of the tensors that exist before the strategy is created
  Setup setup_;
  std::unique_ptr<Strategy> strategy_;
  StepTimer timer_;
  std::optional<Audit> audit_;
  GpuWatch gpus_;
  double step_ns_ = 0, first_loss_ = 0;
  int64_t rewarm_steps_ = 2;   // number of untimed steps before a block
  int64_t leading_steps_ = 1;  // number of these steps that follow the block's look at the strategy
  std::mt19937_64 random_{std::random_device{}()};
  // steps_: steps of a block; timed_steps_, samples_: steps and samples of all blocks.
  int64_t steps_ = 0, timed_steps_ = 0, samples_ = 0;
  int64_t step_tensor_bytes_ = 0;
  std::vector<std::vector<int64_t>> readings_;  // times of single steps, per block
};

}  // namespace dpbench
