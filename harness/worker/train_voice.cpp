#include "harness/worker/train_voice.h"

#include <sstream>

#include <ATen/ATen.h>

namespace dpbench {

void TrainVoice::line(const std::string& text) const {
  if (speaks()) say_({{"event", "line"}, {"case", spec_.id}, {"text", text}});
}

void TrainVoice::greet(const Workload& workload) const {
  const Placement placement{spec_.device, spec_.world};
  std::vector<std::string> lines;
  if (recipe_.lines == Recipe::Lines::tutorial) lines = tutorial_greeting(placement);
  if (recipe_.lines == Recipe::Lines::guide)
    lines = guide_greeting(placement, workload.samples(), workload.batch(at::arange(1)).input.sizes());
  for (const std::string& text : lines) line(text);
}

double TrainVoice::epoch(const EpochLoss& loss, bool shapes_shown) const {
  const bool mean = recipe_.lines == Recipe::Lines::guide;
  // The tutorial's program prints shapes and no loss.
  if (recipe_.lines != Recipe::Lines::tutorial || !shapes_shown) line(mean ? guide_line(loss) : memo_line(loss));
  return mean ? loss.mean : loss.total;
}

void TrainVoice::shapes(ShapeNotes& notes, const std::vector<Batch>& micro, const at::Tensor& output,
                        int64_t rows) const {
  std::vector<at::Tensor> ids;
  for (const Batch& batch : micro) ids.push_back(batch.ids);
  std::string mine;
  for (const SeenShape& seen : notes.take(at::cat(ids))) mine += in_model_line(seen.input, seen.output) + "\n";
  for (const std::string& of_rank : group_.gather(mine)) {
    std::istringstream lines(of_rank);
    for (std::string text; std::getline(lines, text);) line(text);
  }
  auto input = micro.front().input.sizes().vec(), result = output.sizes().vec();
  input[0] = result[0] = rows;
  line(outside_line(input, result));
}

bool TrainVoice::progress_due() {
  if (!speaks() || Clock::now() < next_) return false;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  return true;
}

void TrainVoice::progress(const TrainingPlace& place) const {
  say_({{"event", "progress"},
        {"case", spec_.id},
        {"epoch", place.epoch},
        {"epochs", place.epochs},
        {"step", place.step},
        {"steps", place.steps},
        {"loss", place.loss},
        {"samples_per_s", place.samples_per_s},
        {"left_s", place.left_s}});
}

}  // namespace dpbench
