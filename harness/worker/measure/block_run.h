// A case that stays ready between its blocks: another build's blocks go in between (duel).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/worker/steps/step_timer.h"

namespace dpbench {

class BlockRun {
 public:
  // Set up and warmed up.
  BlockRun(const CaseSpec& spec, int64_t warmup, const Group& group, Pulse& pulse, const std::string& shared_dir);
  const std::string& case_id() const { return case_id_; }
  // One sample. sampling.steps 0: as many steps as it takes, agreed by rank 0.
  RankRecord block(const Sampling& sampling);
  // Collective, after the last block.
  void finish();

 private:
  std::string case_id_;
  std::vector<std::string> own_;  // parameters that each rank keeps for itself
  const Group& group_;
  std::unique_ptr<Workload> workload_;
  StepSource source_;
  std::unique_ptr<Strategy> strategy_;
  StepTimer timer_;
  double step_ns_ = 0;
};

}  // namespace dpbench
