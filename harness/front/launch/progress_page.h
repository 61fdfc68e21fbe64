// Shared memory in which the local ranks publish their progress. The mapped file holds one `Progress` per rank, then
// one `CallLog` per rank with the rank's latest collectives.
#pragma once

#include <filesystem>

#include "harness/front/launch/rank_group.h"
#include "harness/report/record/training.h"

namespace dpbench {

class ProgressPage {
 public:
  ProgressPage(const std::filesystem::path& file, int ranks);
  ~ProgressPage();
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;

  RankState read(int rank) const;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  Progress* page_ = nullptr;
  const CallLog* logs_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace dpbench
