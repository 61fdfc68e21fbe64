// What a training run says while it goes on: rank 0 alone, the lines of its workload's document.
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

struct Document;  // whose program's lines are printed

struct TrainingPlace {
  int64_t epoch = 0, epochs = 1, step = 0, steps = 1;  // the next step
  double loss = 0, samples_per_s = 0, left_s = 0;
};

class TrainVoice {
 public:
  TrainVoice(const CaseSpec& spec, const Group& group, const Say& say);

  void line(const std::string& text) const;
  void greet(const Workload& workload) const;
  // Returns the figure that the document's program prints: the total over ranks, or the mean.
  double epoch(const EpochLoss& loss, bool shapes_shown) const;
  // Collective: every rank's lines, in rank order. rows: of all ranks together, which are those outside.
  void shapes(ShapeNotes& notes, const std::vector<Batch>& micro, const at::Tensor& output, int64_t rows) const;
  // Whether it is time to say again where the run is.
  bool progress_due();
  void progress(const TrainingPlace& place) const;

 private:
  using Clock = std::chrono::steady_clock;

  bool speaks() const { return group_.rank() == 0; }

  const CaseSpec& spec_;
  const Group& group_;
  const Say& say_;
  const Document& document_;
  Clock::time_point next_{};
};

}  // namespace dpbench
