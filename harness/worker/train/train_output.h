// Prints the output of a training run: rank 0 prints the lines of the tutorial program that the workload reproduces.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/worker/rank/group.h"
#include "harness/worker/train/shapes.h"
#include "harness/worker/train/train.h"
#include "harness/worker/train/train_lines.h"
#include "strategies/api/strategy.h"

namespace dpbench {

struct Document;  // output format of one tutorial program

struct TrainingPlace {
  // Position of the next step: its epoch and its index in the epoch.
  int64_t epoch = 0, epochs = 1, step = 0, steps = 1;
  double loss = 0, samples_per_s = 0, left_s = 0;
};

class TrainOutput {
 public:
  TrainOutput(const CaseSpec& spec, const Group& group, const SendEvent& send);

  void line(const std::string& text) const;
  void greet(const Workload& workload) const;
  // Prints an epoch's line, unless shapes were shown and the tutorial program then prints no loss. Returns the loss of
  // the line: the total over ranks or the mean, depending on the tutorial program.
  double epoch(const EpochLoss& loss, bool shapes_shown) const;
  // Prints, for each replica in rank order, a line with its input and output shapes, then the tutorial's "Outside" line
  // for all `samples` samples of the step. Every rank must call it.
  void shapes(ShapeLog& log, const std::vector<Batch>& micro, const at::Tensor& output, int64_t samples) const;
  // True if a progress event is due (at most 10 per second, rank 0 only). If it is, restarts the interval.
  bool progress_due();
  void progress(const TrainingPlace& place) const;

 private:
  using Clock = std::chrono::steady_clock;

  bool is_rank0() const { return group_.rank() == 0; }

  const CaseSpec& spec_;
  const Group& group_;
  const SendEvent& send_;
  const Document& document_;
  Clock::time_point next_{};
};

}  // namespace dpbench
