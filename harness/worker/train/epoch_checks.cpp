#include "harness/worker/train/epoch_checks.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <ATen/ATen.h>

#include "harness/worker/steps/tensor_checks.h"

namespace dpbench {
namespace {

constexpr int64_t test_batch_size = 500;

}  // namespace

Accuracy evaluate(Strategy& strategy, const Workload& workload, const Group& group, Pulse& pulse) {
  group.broadcast(strategy.buffers());
  const int64_t samples = workload.test_samples();
  int64_t right = 0, classes = 0;
  const int64_t world = group.world(), most = (samples + world - 1) / world;
  for (int64_t first = 0; first < most; first += test_batch_size) {
    // A rank that has no samples left evaluates sample 0 and ignores the result, because forward() may be collective.
    const int64_t from = first * world + group.rank(), until = std::min(samples, (first + test_batch_size) * world);
    const at::Tensor ids = from < until ? at::arange(from, until, world) : at::zeros({1}, at::kLong);
    const Batch batch = workload.test_batch(ids);
    const at::Tensor output = strategy.forward(batch);
    pulse.beat();
    if (from >= until) continue;
    const at::Tensor predicted = workload.predicted(output).cpu();
    if (predicted.sizes() != batch.target.sizes())
      throw UsageError(
          "--eval and --target-accuracy need outputs whose last dimension is the classes, and a target for "
          "each output");
    right += predicted.eq(batch.target).sum().item<int64_t>();
    classes += workload.loss_terms(batch);
  }
  at::Tensor counted = at::tensor({right, classes});
  group.sum(counted);
  return {.right = counted[0].item<int64_t>(), .classes = counted[1].item<int64_t>()};
}

void EpochChecks::validate() const {
  if (!job_.options.evaluate && !job_.options.target_accuracy) return;
  const int64_t samples = workload_.test_samples();
  const bool classes = samples > 0 && [&] {
    const at::Tensor target = workload_.test_batch(at::arange(1)).target;
    return target.scalar_type() == at::kLong;
  }();
  if (!classes)
    throw UsageError("--eval and --target-accuracy need test samples with classes; " + job_.spec.workload +
                     (samples > 0 ? " has no classes" : " has no test samples"));
}

bool EpochChecks::after_epoch(Strategy& strategy, TrainingState& state) {
  const bool differ = ranks_differ(strategy, state.epoch - 1);
  return reached_target(strategy, state) || differ;
}

// True if the parameters or optimizer state of any rank differ from rank 0's in at least one bit. Every rank must call
// it.
bool EpochChecks::ranks_differ(Strategy& strategy, int64_t epoch) {
  if (job_.info.gradient == Gradient::local)
    // With local gradients (local SGD), ranks may differ until the parameters are averaged, at the latest at the end of
    // training, so they are not compared.
    return false;
  const auto texts =
      job_.group.gather(fingerprint(strategy.parameters(), job_.own) + " " + fingerprint(strategy.state(), job_.own));
  std::string mismatch;
  for (size_t rank = 1; rank < texts.size() && mismatch.empty(); ++rank)
    if (texts[rank] != texts[0])
      mismatch = "after epoch " + std::to_string(epoch) + ", parameters or optimizer state of rank " +
                 std::to_string(rank) + " differ from rank 0";
  if (job_.group.agree(!mismatch.empty()) == 0) return false;
  rank_mismatch_ = {.name = "equal-ranks",
                    .status = CheckStatus::failed,
                    .compared = "parameters and optimizer state across ranks, bit for bit",
                    .detail = mismatch,
                    .likely = "gradients were not reduced on every rank, or a rank skipped a step"};
  return true;
}

bool EpochChecks::reached_target(Strategy& strategy, TrainingState& state) {
  const auto& target = job_.options.target_accuracy;
  if (!job_.options.evaluate && !target) return false;
  const Accuracy found = evaluate(strategy, workload_, job_.group, job_.pulse);
  state.accuracy.push_back(found.share());
  char text[96];
  std::snprintf(text, sizeof text, "Accuracy: %.2f %% (%lld of %lld)", 100 * found.share(),
                static_cast<long long>(found.right), static_cast<long long>(found.classes));
  output_.line(text);
  if (!target || found.share() < *target) return false;
  if (!time_to_accuracy_s_) time_to_accuracy_s_ = state.seconds;
  return true;
}

std::vector<CheckRow> EpochChecks::rows(const TrainingState& state) const {
  std::vector<CheckRow> rows;
  if (rank_mismatch_) rows.push_back(*rank_mismatch_);
  if (const auto& target = job_.options.target_accuracy) {
    char text[96];
    std::snprintf(text, sizeof text, "%.4f after %lld epochs, wanted %g", state.accuracy.back(),
                  static_cast<long long>(state.epoch), *target);
    rows.push_back({.name = "target-accuracy",
                    .status = time_to_accuracy_s_ ? CheckStatus::passed : CheckStatus::failed,
                    .compared = "fraction of test samples classified correctly",
                    .detail = text});
  }
  return rows;
}

}  // namespace dpbench
