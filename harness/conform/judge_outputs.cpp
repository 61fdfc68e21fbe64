// What a step and an evaluation give back: shapes, dtypes, values, losses.
#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/compare.h"
#include "harness/conform/judges.h"

namespace dpbench {
namespace {

std::string place_in(const Trial& trial, size_t rank, size_t step) {
  return ", rank " + std::to_string(rank) + ", step " + std::to_string(step) + ", scenario " + trial.scenario.name;
}

// The rows of this rank, micro-batch by micro-batch; of one process those of all its replicas.
at::Tensor expected_output(const Trial& trial, const ExpectedStep& step, int rank) {
  std::vector<at::Tensor> outputs;
  for (const auto& shard : step.shards)
    if (trial.bench.layout.owners() == 1 || shard.replica == rank) outputs.push_back(shard.output);
  return outputs.empty() ? at::Tensor() : at::cat(outputs);
}

// The mean over micro-batches of each one's loss.
at::Tensor expected_loss(const Trial& trial, const ExpectedStep& step, int rank) {
  at::Tensor sum;
  const bool coupled = trial.bench.strategy.gradient == Gradient::gathered;
  int64_t last = -1;
  for (const auto& shard : step.shards) {
    if (coupled ? shard.micro == last : shard.replica != rank) continue;
    last = shard.micro;
    sum = sum.defined() ? sum + shard.loss : shard.loss;
  }
  return sum.defined() ? sum / static_cast<double>(trial.scenario.accumulate) : sum;
}

bool right_dtype(const Trial& trial, at::ScalarType type) {
  if (trial.scenario.dtype == at::kBFloat16) return at::isFloatingType(type);
  return type == trial.scenario.dtype;
}

std::string output_mistake(const Trial& trial, const at::Tensor& found, const at::Tensor& expected) {
  const auto sorted = [](const at::Tensor& tensor) { return std::get<0>(tensor.to(at::kDouble).flatten().sort()); };
  if (relative_error(sorted(found), sorted(expected), 0) <= exact_bound) return "rows in another order";
  if (trial.bench.strategy.buffers == Buffers::synchronised) return "BatchNorm's statistics are not those over all ranks' rows";
  return "another rank's or replica's rows, another model, mask or mode";
}

std::string loss_mistake(const Trial& trial, double found, double expected) {
  const auto micro = static_cast<double>(trial.scenario.accumulate);
  if (micro > 1 && std::abs(found - micro * expected) <= 1e-9 * std::abs(found)) return "summed over the micro-batches, not their mean";
  return "another rank's loss, of other targets, or not the mean over its rows";
}

void judge_step(const Trial& trial, size_t rank, size_t step, Rows& rows) {
  const StepEvidence& seen = trial.ranks[rank].steps[step];
  const auto where = place_in(trial, rank, step);
  const at::Tensor output = expected_output(trial, trial.expected[step], static_cast<int>(rank));
  if (!output.defined()) return;  // this rank had no rows
  const bool shaped = seen.output.defined() && seen.output.sizes() == output.sizes();
  rows.judged("output-shape", "rows of this rank by the width of the model's output", shaped,
              "expected " + c10::str(output.sizes()) + ", found " +
                  (seen.output.defined() ? c10::str(seen.output.sizes()) : std::string("nothing")) + where);
  if (!shaped) return;
  rows.judged("output-dtype", "the output's type with the one asked for", right_dtype(trial, seen.output.scalar_type()),
              "found " + c10::str(seen.output.scalar_type()) + where);
  const bool scalar = seen.loss.defined() && seen.loss.numel() == 1;
  rows.judged("loss-finite", "one finite number a step", scalar && std::isfinite(seen.loss.item<double>()),
              (scalar ? "found " + short_number(seen.loss.item<double>()) : std::string("found no single number")) + where);
  if (trial.scenario.dtype != at::kDouble || !scalar) return;
  rows.measured("output-value", "output with the float64 oracle", relative_error(seen.output, output, 0), exact_bound,
                [&] { return first_difference(seen.output, output) + where; },
                [&] { return output_mistake(trial, seen.output, output); });
  const at::Tensor loss = expected_loss(trial, trial.expected[step], static_cast<int>(rank));
  rows.measured("loss-value", "loss of this rank's rows with the float64 oracle",
                relative_error(seen.loss.reshape({}), loss.reshape({}), 0), exact_bound,
                "expected " + short_number(loss.item<double>()) + ", found " + short_number(seen.loss.item<double>()) + where,
                loss_mistake(trial, seen.loss.item<double>(), loss.item<double>()));
}

}  // namespace

void judge_outputs(const Trial& trial, Rows& rows) {
  if (trial.scenario.poison || trial.scenario.smooth) return;
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank)
    for (auto step = static_cast<size_t>(trial.scenario.judged_from); step < trial.expected.size(); ++step)
      judge_step(trial, rank, step, rows);
}

void judge_evaluation(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype != at::kDouble || trial.expected.empty()) return;
  Oracle oracle(trial.workload(), at::kDouble, trial.bench.step_seed(), 1);
  const std::string compared = "forward() of one rank alone with the float64 oracle; no collective, nothing changed";
  for (const auto& evidence : trial.ranks)
    for (const auto& evaluation : evidence.evaluations) {
      const StepEvidence& last = evidence.steps[static_cast<size_t>(evaluation.step)];
      const std::string where = place_in(trial, static_cast<size_t>(evidence.rank), static_cast<size_t>(evaluation.step));
      const auto expected = oracle.evaluate(trial.workload().batch(evaluation.ids), last.parameters, last.buffers);
      rows.measured("evaluation", compared, relative_error(evaluation.output, expected, 0), exact_bound,
                    [&] { return first_difference(evaluation.output, expected) + where; },
                    "evaluated in training mode, or with another rank's statistics");
      rows.judged("evaluation", compared, evaluation.collectives == 0,
                  std::to_string(evaluation.collectives) + " collectives were called" + where,
                  "one rank alone would wait for ever");
      for (const auto& [name, buffer] : last.buffers) {
        const at::Tensor* after = find(evaluation.buffers, name);
        rows.judged("evaluation", compared, after && same_bits(*after, buffer), "buffer " + name + " changed" + where,
                    "evaluated in training mode");
      }
    }
}

void judge_learning(const Trial& trial, Rows& rows) {
  if (!trial.scenario.learns) return;
  std::vector<double> losses;
  for (size_t step = 0; step < trial.ranks[0].steps.size(); ++step) {
    double sum = 0, weight = 0;
    for (const auto& evidence : trial.ranks) {
      const auto& seen = evidence.steps[step];
      if (seen.ids.empty() || !seen.loss.defined()) continue;
      const auto rows_here = static_cast<double>(seen.ids[0].numel());
      sum += rows_here * seen.loss.item<double>();
      weight += rows_here;
    }
    losses.push_back(sum / weight);
  }
  const size_t span = losses.size() / 4;
  double first = 0, last = 0;
  for (size_t i = 0; i < span; ++i) first += losses[i], last += losses[losses.size() - 1 - i];
  rows.judged("loss-falls", "mean loss of the last quarter of 20 steps below that of the first", last < first,
              "from " + short_number(first / static_cast<double>(span)) + " to " +
                  short_number(last / static_cast<double>(span)),
              "parameters are not updated, or in the wrong direction");
}

}  // namespace dpbench
