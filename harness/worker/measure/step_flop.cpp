#include "harness/worker/measure/step_flop.h"

namespace dpbench {

void StepFlop::begin() {
  before_ = count_.flop();
  replayed_ = false;
}

void StepFlop::end(std::span<const Batch> micro) {
  Shape shape;
  for (const Batch& batch : micro) {
    shape.push_back(batch.samples());
    if (batch.input.defined()) shape.insert(shape.end(), batch.input.sizes().begin(), batch.input.sizes().end());
  }
  const int64_t counted = count_.flop() - before_;
  if (!replayed_ && counted > 0)
    // The first FLOP count of each input shape is kept: in later steps some operations may be replayed, which are not
    // counted.
    eager_.emplace(shape, counted);
  const auto known = eager_.find(shape);
  steps_.push_back(known == eager_.end() ? std::nullopt : std::optional(known->second));
}

std::optional<int64_t> StepFlop::mean_of_last(int64_t steps) const {
  int64_t sum = 0;
  for (auto step = steps_.end() - steps; step != steps_.end(); ++step) {
    if (!*step) return std::nullopt;
    sum += **step;
  }
  return sum > 0 ? std::optional((sum + steps / 2) / steps) : std::nullopt;
}

}  // namespace dpbench
