#include "harness/conform/judges/signatures/loss_signatures.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/judges/judges.h"
#include "workloads/api/tensor_split.h"

namespace dpbench {
namespace {

// A mistake, and the loss that it gives.
using WrongLoss = std::pair<std::string, double>;

// Returns the mesh axis whose ranks each have the logits of a piece of the vocabulary.
std::optional<AxisSize> axis_of_vocabulary(const Trial& trial) {
  for (const AxisSize& axis : trial.bench.distribution.mesh)
    if (axis_has(&KnownAxis::cuts_tensors, axis.name) &&
        first_model(trial.bench)->tensor_plan(axis.size).maxima.calls > 0)
      return axis;
  return {};
}

// Returns the losses of a micro-batch that known mistakes give. place: this rank's position on the axis that divides
// the vocabulary. target: the label of each token; padding has a negative label.
std::vector<WrongLoss> wrong_losses(const Shard& pass, const at::Tensor& target, const AxisSize& axis, int place) {
  const std::vector<int64_t> sizes = even_pieces(pass.output.size(2), axis.size);
  const Piece mine = piece_of(sizes, place);
  const at::Tensor shifted = pass.output - pass.output.amax(2, /*keepdim=*/true);
  std::vector<at::Tensor> pieces;
  for (const at::Tensor& piece : pass.output.split_with_sizes(sizes, 2))
    pieces.push_back(piece - piece.amax(2, /*keepdim=*/true));
  const at::Tensor by_own_maximum = at::cat(pieces, 2);
  const auto logit_of = [](const at::Tensor& logits, const at::Tensor& labels) {
    return logits.gather(2, labels.clamp_min(0).unsqueeze(2)).squeeze(2);
  };
  const at::Tensor sum = shifted.logsumexp(2), label = logit_of(shifted, target);
  const at::Tensor held = target.ge(mine.first).logical_and(target.lt(mine.first + mine.size));
  at::Tensor first = at::zeros_like(target, at::kBool), last = first.clone();
  for (int rank = 0; rank < axis.size; ++rank) {
    const Piece piece = piece_of(sizes, rank);
    first.logical_or_(target.eq(piece.first));
    last.logical_or_(target.eq(piece.first + piece.size - 1));
  }
  const at::Tensor previous = logit_of(shifted, target - 1) * first.logical_and(target.gt(0));

  const double loss = pass.loss.item<double>();
  const at::Tensor counted = target.ge(0);
  const auto tokens = counted.sum().item<double>();
  const auto with = [&](const at::Tensor& losses) {
    return loss + ((losses - (sum - label)) * counted).sum().item<double>() / tokens;
  };
  const Piece own = piece_of(even_pieces(target.size(1), axis.size), place);
  const auto own_tokens = counted.narrow(1, own.first, own.size).sum().clamp_min(1).item<double>();
  const std::string of_piece = " of this rank's piece of the vocabulary: not ", over = " over the axis " + axis.name;
  return {
      {"the logits are shifted by the maximum" + of_piece + "the maximum" + over,
       with(by_own_maximum.logsumexp(2) - logit_of(by_own_maximum, target))},
      {"the sum of exponentials is that" + of_piece + "summed" + over,
       with(shifted.narrow(2, mine.first, mine.size).logsumexp(2) - label)},
      {"the label's logit is that" + of_piece + "summed" + over, with(sum - label * held)},
      {"a label on the border of two pieces of the vocabulary is counted by two ranks of the axis " + axis.name,
       with(sum - label - previous)},
      {"the first label of each piece of the vocabulary is counted by no rank of the axis " + axis.name,
       with(sum - label.masked_fill(first, 0))},
      {"the last label of each piece of the vocabulary is counted by no rank of the axis " + axis.name,
       with(sum - label.masked_fill(last, 0))},
      {"divided by the number of all tokens, padding included", loss * tokens / static_cast<double>(target.numel())},
      {"divided by the number of tokens of this rank's piece of the sequence: not summed" + over,
       loss * tokens / own_tokens},
      {"summed over tokens, not averaged", loss * tokens}};
}

// Returns the losses of a rank's step that known mistakes give: means over its micro-batches.
std::vector<WrongLoss> wrong_losses(const Trial& trial, size_t rank, size_t step, const AxisSize& axis) {
  const StepEvidence& seen = trial.ranks[rank].steps[step];
  const auto number = static_cast<int>(rank);
  const int place = place_on(trial.bench.distribution.mesh, axis.name, number);
  std::vector<WrongLoss> means;
  for (const Shard& pass : trial.expected[step].shards) {
    if (pass.replica != trial.replica_of(number)) continue;
    const at::Tensor target = trial.workload().batch(seen.ids[static_cast<size_t>(pass.micro)]).target;
    if (pass.output.dim() != 3 || target.sizes() != pass.output.sizes().slice(0, 2)) return {};
    const auto losses = wrong_losses(pass, target, axis, place);
    means.resize(losses.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      means[i].first = losses[i].first;
      means[i].second += losses[i].second / static_cast<double>(seen.ids.size());
    }
  }
  return means;
}

}  // namespace

std::string likely_loss_mistake(const Trial& trial, size_t rank, size_t step, bool right_output, double bound) {
  const StepEvidence& seen = trial.ranks[rank].steps[step];
  const auto micro = static_cast<double>(seen.ids.size()), found = seen.loss.item<double>();
  const auto due = expected_loss(trial, trial.expected[step], static_cast<int>(rank)).item<double>();
  const double slack = 1e3 * bound * std::abs(found);
  if (micro > 1 && std::abs(found - micro * due) <= slack) return "summed over the micro-batches, not averaged";
  const std::string text = "another rank's loss, wrong targets, or not the mean over this rank's samples";
  const std::optional<AxisSize> axis = right_output ? axis_of_vocabulary(trial) : std::nullopt;
  if (!axis) return text;
  // In narrower dtypes than float64, rounding errors are too large to tell mistakes apart.
  if (bound <= exact_bound)
    for (const auto& [mistake, loss] : wrong_losses(trial, rank, step, *axis))
      if (std::abs(found - loss) <= slack && std::abs(due - loss) > slack) return mistake;
  return text + ", or the loss of this rank's piece of the vocabulary alone, not of the whole axis " + axis->name +
         ": its maximum, sum of exponentials, label's logit or label smoothing, or a label on the border of two pieces";
}

}  // namespace dpbench
