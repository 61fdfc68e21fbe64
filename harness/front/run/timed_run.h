// A run of timed blocks of steps. The blocks of each planned case alternate with blocks of the case that its speed-up
// is measured against.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/run/progress/event_lines.h"
#include "harness/front/run/run.h"

namespace dpbench {

class TimedRun : public ReportRun {
 public:
  TimedRun(const RunOptions& options, World* world) : ReportRun(options, world, "run"), run_options_(options) {}

  void prepare() override;
  void plan() override;

 protected:
  Start begin() override;
  void on_start() override;
  void on_end(int code) override;
  LoopEnding run_cases() override;
  std::string output() const override;
  Ending ending() const override;
  bool write_extra_files() override;
  std::string closing_line(bool saved) const override;
  std::vector<std::string> hints() const override;
  virtual LoopEnding measure_with(CaseRunner& runner, LaunchLoop::MakeCommand make_command);
  // Returns a function that chooses the cases of each launch; empty: every launch measures all unfinished cases.
  virtual LaunchLoop::Choose choose() { return {}; }

  const RunOptions& run_options_;

 private:
  LoopEnding run_pairs(LaunchLoop::MakeCommand make_command);
  Json order(const std::filesystem::path& traces, int launch) const;
  std::string answer() const;

  std::optional<EventLines> events_;  // writer of JSON lines; set only with -o jsonl
};

}  // namespace dpbench
