// Checks what training steps and evaluations return: output shapes, dtypes, values and losses.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/judges/signatures/loss_signatures.h"
#include "harness/conform/judges/signatures/output_pattern.h"

namespace dpbench {
namespace {

// Returns the expected output dtype. Autocast computes in bfloat16 but returns float32, the dtype of the parameters.
at::ScalarType due_dtype(const Trial& trial) {
  return trial.scenario.dtype == at::kBFloat16 ? at::kFloat : trial.scenario.dtype;
}

// How a value of a forward pass is checked: in float64 against the oracle (the reference computation), otherwise
// against a recomputation in the same dtype.
struct Value {
  bool judged;
  std::string suffix, with;
  double bound;
};

Value value_of(const Trial& trial) {
  if (trial.scenario.dtype == at::kDouble) return {true, "", " with the float64 oracle", exact_bound};
  // Outputs and losses are not compared on a GPU, whose kernels round differently from the recomputation's CPU kernels.
  const bool judged = trial.bench.devices.front().is_cpu() && !trial.scenario.poison && !trial.scenario.smooth;
  at::ScalarType type = trial.scenario.dtype;
  for (const auto& [name, parameter] : trial.ranks[0].parameters)
    if (parameter.is_floating_point()) type = coarser(type, parameter.scalar_type());
  return {judged, "-replay", " with the same pass replayed in the same dtype", pass_bound(type)};
}

// True if ranks may store different rows of a parameter. Without a mesh, a strategy that supports the mesh axis `shard`
// divides the rows over all ranks.
bool shards_parameters(const Bench& bench) {
  const MeshShape& mesh = bench.distribution.mesh;
  if (!is_plain(mesh)) return size_of(mesh, &KnownAxis::stores_rows) > 1;
  return std::ranges::any_of(bench.strategy.axes,
                             [](const std::string& axis) { return axis_has(&KnownAxis::stores_rows, axis); });
}

std::string output_mistake(const Trial& trial, const at::Tensor& found, const at::Tensor& expected, double bound) {
  if (shards_parameters(trial.bench) && found.isnan().logical_and(expected.isnan().logical_not()).any().item<bool>())
    return "the output is NaN, as if a parameter were used after it was freed or before it was gathered";
  const auto sorted = [](const at::Tensor& tensor) { return std::get<0>(tensor.to(at::kDouble).flatten().sort()); };
  if (relative_error(sorted(found), sorted(expected), 0) <= bound) return "samples in the wrong order";
  if (bound > exact_bound && relative_error(found, expected, 0) <= unit_roundoff(at::kBFloat16))
    return "computed in or rounded to a narrower dtype";
  if (trial.couples_samples()) return "BatchNorm's statistics do not cover the samples of all ranks";
  std::string text = shards_parameters(trial.bench)
                         ? "parameters that were gathered wrongly, freed too early or stale, samples of another rank, "
                           "or the wrong dropout mask or mode"
                         : "samples of another rank or replica, or the wrong model, dropout mask or mode";
  if (trial.shares_replicas())
    text +=
        ", or between the ranks of one replica: a sum that is missing, averaged or made twice, or an activation of "
        "another rank";
  const bool cuts_tokens = size_of(trial.bench.distribution.mesh, &KnownAxis::cuts_layers) > 1 && expected.dim() == 3;
  return text + (cuts_tokens ? ", or pieces of the sequence that were gathered in the wrong order or not at all" : "");
}

void judge_step(const Trial& trial, size_t rank, size_t step, Rows& rows) {
  const StepEvidence& seen = trial.ranks[rank].steps[step];
  const auto where = trial.place(static_cast<int64_t>(rank), static_cast<int64_t>(step));
  const at::Tensor output = expected_output(trial, trial.expected[step], static_cast<int>(rank));
  if (!output.defined()) return;  // No output is expected of a rank without samples.
  const bool shaped = seen.output.defined() && seen.output.sizes() == output.sizes();
  rows.judged("output-shape", "this rank's number of samples by the width of the model's output", shaped,
              "expected " + c10::str(output.sizes()) + ", found " +
                  (seen.output.defined() ? c10::str(seen.output.sizes()) : std::string("nothing")) + where);
  if (!shaped) return;
  rows.judged("output-dtype", "the output's dtype with the requested one (float32 under autocast)",
              seen.output.scalar_type() == due_dtype(trial),
              "expected " + c10::str(due_dtype(trial)) + ", found " + c10::str(seen.output.scalar_type()) + where);
  const bool scalar = seen.loss.defined() && seen.loss.numel() == 1;
  rows.judged(
      "loss-finite", "one finite number per step", scalar && std::isfinite(seen.loss.item<double>()),
      (scalar ? "found " + short_number(seen.loss.item<double>()) : std::string("found no single number")) + where);
  const auto [judged, suffix, with, bound] = value_of(trial);
  // In narrower dtypes than float64, values that depend on synchronised BatchNorm statistics are not compared: their
  // rounding error grows with the mean and has no simple bound.
  if (!judged || !scalar || (trial.couples_samples() && trial.scenario.dtype != at::kDouble)) return;
  const auto row_of = [&, &suffix = suffix](const char* name) {
    return suffix.empty() ? name + std::string("-value") : name + suffix;
  };
  rows.measured(
      row_of("output"), "output" + with, relative_error(seen.output, output, 0), bound,
      [&] { return first_difference(seen.output, output) + where; },
      [&, bound = bound] {
        const at::Tensor input = trial.workload().batch(at::cat(seen.ids)).input;
        if (std::string order = token_order(seen.output, output, bound); !order.empty()) return order;
        const std::string part = output_pattern(seen.output, output, input, trial.bench.distribution.mesh, 1e3 * bound);
        return part + (part.empty() ? "" : ": ") + output_mistake(trial, seen.output, output, bound);
      });
  const at::Tensor loss = expected_loss(trial, trial.expected[step], static_cast<int>(rank));
  // The error bound of a loss scales with the outputs: a cross-entropy may be a small difference of large numbers.
  const double floor =
      suffix.empty() ? 0 : norm({output}) / std::sqrt(static_cast<double>(std::max<int64_t>(output.size(0), 1)));
  rows.measured(row_of("loss"), "loss of this rank's samples" + with,
                relative_error(seen.loss.reshape({}), loss.reshape({}), floor), bound,
                expected_and_found(loss.item<double>(), seen.loss.item<double>()) + where, [&, bound = bound] {
                  return likely_loss_mistake(trial, rank, step, relative_error(seen.output, output, 0) <= bound, bound);
                });
}

}  // namespace

void judge_outputs(const Trial& trial, Rows& rows) {
  if (trial.scenario.poison || trial.scenario.smooth) return;
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank)
    for (auto step = static_cast<size_t>(trial.scenario.judged_from); step < trial.expected.size(); ++step)
      judge_step(trial, rank, step, rows);
}

void judge_evaluation(const Trial& trial, Rows& rows) {
  const auto [judged, suffix, with, bound] = value_of(trial);
  if (!judged || trial.expected.empty()) return;
  Oracle oracle(trial.workload(), trial.scenario.dtype, trial.bench.step_seed(),
                Oracle::Replicas(trial.bench.strategy));
  const bool collective = trial.bench.strategy.collective_evaluation;
  const std::string forward = collective ? "forward() on all ranks" : "forward() on one rank alone",
                    compared = forward + (collective ? ": no state changed" : ": no collective, no state changed"),
                    value = forward + with;
  for (const auto& evidence : trial.ranks)
    for (const auto& evaluation : evidence.evaluations) {
      const StepEvidence& last = evidence.steps[static_cast<size_t>(evaluation.step)];
      const std::string where = trial.place(evidence.rank, evaluation.step);
      const auto expected = oracle.evaluate(trial.workload().batch(evaluation.ids), last.parameters, last.buffers);
      rows.measured(
          "evaluation" + suffix, value, relative_error(evaluation.output, expected, 0), bound,
          [&] { return first_difference(evaluation.output, expected) + where; },
          [&, bound = bound] {
            const bool rounded =
                bound > exact_bound && relative_error(evaluation.output, expected, 0) <= unit_roundoff(at::kBFloat16);
            return rounded ? "computed in or rounded to a narrower dtype"
                           : "evaluated in training mode, or with another rank's statistics or stale parameters";
          });
      rows.judged("evaluation", compared, evaluation.collectives == 0 || trial.bench.strategy.collective_evaluation,
                  std::to_string(evaluation.collectives) + " collectives were called" + where,
                  "one rank alone would wait forever");
      for (const auto& [name, buffer] : last.buffers) {
        const at::Tensor* after = find(evaluation.buffers, name);
        rows.judged("evaluation", compared, after && same_bits(*after, buffer), "buffer " + name + " changed" + where,
                    "evaluated in training mode");
      }
    }
}

void judge_learning(const Trial& trial, Rows& rows) {
  if (!trial.scenario.learns) return;
  const std::string compared = "mean loss of the last quarter of 20 steps below that of the first";
  if (trial.workload().optimizer().learning_rate == 0)
    return rows.skipped("loss-falls", compared, "the workload's learning rate is zero");
  std::vector<double> losses;
  for (size_t step = 0; step < trial.ranks[0].steps.size(); ++step) {
    double sum = 0, weight = 0;
    for (const auto& evidence : trial.ranks) {
      const auto& seen = evidence.steps[step];
      if (seen.ids.empty() || !seen.loss.defined()) continue;
      if (seen.loss.numel() != 1) return rows.skipped("loss-falls", compared, "a loss is no single number");
      const auto rows_here = static_cast<double>(seen.ids[0].numel());
      sum += rows_here * seen.loss.item<double>();
      weight += rows_here;
    }
    losses.push_back(sum / weight);
  }
  const size_t span = losses.size() / 4;
  double first = 0, last = 0;
  for (size_t i = 0; i < span; ++i) first += losses[i], last += losses[losses.size() - 1 - i];
  rows.judged("loss-falls", compared, last < first,
              "from " + short_number(first / static_cast<double>(span)) + " to " +
                  short_number(last / static_cast<double>(span)),
              "parameters are not updated, or in the wrong direction");
}

}  // namespace dpbench
