// Keeps a case loaded between its timed blocks of steps, so that `dpbench duel` can alternate the blocks of two builds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/worker/steps/step_timer.h"

namespace dpbench {

class BlockRun {
 public:
  // Creates the case's strategy and runs its warm-up steps.
  BlockRun(const CaseSpec& spec, int64_t warmup, const Group& group, Pulse& pulse, const std::string& shared_dir);
  const std::string& case_id() const { return case_id_; }
  // Runs two untimed steps, then times one block of steps. If sampling.steps is 0, rank 0 chooses the number of steps
  // so that the block lasts about sampling.min_sample_s.
  RankRecord block(const Sampling& sampling);
  // Finishes the strategy's work. Collective: every rank must call it, after the last block.
  void finish();

 private:
  std::string case_id_;
  std::vector<std::string> own_;  // names of parameters that are not synchronized between ranks
  const Group& group_;
  std::unique_ptr<Workload> workload_;
  StepSource source_;
  std::unique_ptr<Strategy> strategy_;
  StepTimer timer_;
  double step_ns_ = 0;
};

}  // namespace dpbench
