#include "harness/worker/train/train_output.h"

#include <map>
#include <sstream>

#include <ATen/ATen.h>

namespace dpbench {

struct Document {
  std::vector<std::string> (*greeting)(const DeviceCount& count, const Workload& workload);
  std::string (*epoch_line)(const EpochLoss& loss);
  double EpochLoss::* printed;  // the loss that the epoch line prints: total or mean
  bool shapes_alone = false;    // true: with --show-shapes, the tutorial program prints shapes only, no loss
};

namespace {

const Document memo{.greeting = [](const DeviceCount&, const Workload&) { return std::vector<std::string>{}; },
                    .epoch_line = memo_line,
                    .printed = &EpochLoss::total};
const Document tutorial{.greeting = [](const DeviceCount& count, const Workload&) { return tutorial_greeting(count); },
                        .epoch_line = memo_line,
                        .printed = &EpochLoss::total,
                        .shapes_alone = true};
const Document guide{.greeting =
                         [](const DeviceCount& count, const Workload& workload) {
                           return guide_greeting(count, workload.samples(),
                                                 workload.batch(at::arange(1)).input.sizes());
                         },
                     .epoch_line = guide_line,
                     .printed = &EpochLoss::mean};
const Document mean_of_epochs{.greeting = memo.greeting, .epoch_line = guide_line, .printed = &EpochLoss::mean};

// Workloads with an output format of their own: those from a tutorial, and gpt, which prints its mean loss. All others
// print one line "EPOCH: LOSS" per epoch, like the memo, the training program that the mnist-mlp workload follows.
const std::map<std::string, const Document*> documents = {
    {"convnet", &guide}, {"gpt", &mean_of_epochs}, {"random-linear", &tutorial}};

const Document& document_of(const std::string& workload) {
  const auto found = documents.find(workload);
  return found == documents.end() ? memo : *found->second;
}

}  // namespace

TrainOutput::TrainOutput(const CaseSpec& spec, const Group& group, const SendEvent& send)
    : spec_(spec), group_(group), send_(send), document_(document_of(spec.workload)) {}

void TrainOutput::line(const std::string& text) const {
  if (is_rank0()) send_({{"event", "line"}, {"case", spec_.id}, {"text", text}});
}

void TrainOutput::greet(const Workload& workload) const {
  for (const std::string& text : document_.greeting({spec_.device, spec_.world}, workload)) line(text);
}

double TrainOutput::epoch(const EpochLoss& loss, bool shapes_shown) const {
  if (!shapes_shown || !document_.shapes_alone) line(document_.epoch_line(loss));
  return loss.*document_.printed;
}

void TrainOutput::shapes(ShapeLog& log, const std::vector<Batch>& micro, const at::Tensor& output,
                         int64_t samples) const {
  std::vector<at::Tensor> ids;
  for (const Batch& batch : micro) ids.push_back(batch.ids);
  std::string own_lines;
  for (const ModelShapes& seen : log.take(at::cat(ids))) own_lines += in_model_line(seen.input, seen.output) + "\n";
  for (const std::string& rank_lines : group_.gather(own_lines)) {
    std::istringstream lines(rank_lines);
    for (std::string text; std::getline(lines, text);) line(text);
  }
  auto input = micro.front().input.sizes().vec(), result = output.sizes().vec();
  input[0] = result[0] = samples;
  line(outside_line(input, result));
}

bool TrainOutput::progress_due() {
  if (!is_rank0() || Clock::now() < next_) return false;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  return true;
}

void TrainOutput::progress(const TrainingPlace& place) const {
  send_({{"event", "progress"},
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
