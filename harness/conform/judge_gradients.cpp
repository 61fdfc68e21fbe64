// Gradients against the oracle: in float64 against the mathematics, in the working dtype against a repetition of each shard.
#include <ATen/ATen.h>

#include "harness/conform/compare.h"
#include "harness/conform/judges.h"
#include "harness/conform/signatures.h"

namespace dpbench {
namespace {

constexpr double floor_share = 1e-3;   // of the global norm: below it a tensor's own norm says nothing
constexpr double allowed_factor = 8;   // of one device's own rounding error, on smooth models
constexpr double by_definition = 1e-9; // closer than this, two meanings are the same one

struct Finding {
  double error = 0;
  int64_t step = 0;
  int rank = 0;
  std::vector<size_t> wrong;
};

std::string place(const Trial& trial, const Finding& finding, const at::Tensor& expected) {
  const size_t p = finding.wrong.front();
  return "parameter " + trial.names[p] + ", " +
         first_difference(trial.reported(finding.step, p, finding.rank), expected) + ", rank " +
         std::to_string(finding.rank) + ", step " + std::to_string(finding.step) + ", scenario " + trial.scenario.name;
}

// Calls measure(step, rank, parameter) wherever a gradient is due; keeps the largest error and the first place above bound.
template <class Measure>
Finding scan(const Trial& trial, double bound, Measure measure) {
  Finding finding;
  for (int64_t step = 0; step < static_cast<int64_t>(trial.expected.size()); ++step)
    for (int rank = 0; rank < static_cast<int>(trial.ranks.size()); ++rank) {
      std::vector<size_t> wrong;
      for (size_t p = 0; p < trial.names.size(); ++p) {
        if (!trial.expected[static_cast<size_t>(step)].used[p]) continue;
        if (rank > 0 && trial.reported(step, p, rank).is_same(trial.reported(step, p))) continue;  // as rank 0's
        const double error = measure(step, rank, p);
        finding.error = std::max(finding.error, error);
        if (!(error <= bound)) wrong.push_back(p);
      }
      if (!wrong.empty() && finding.wrong.empty()) finding.step = step, finding.rank = rank, finding.wrong = wrong;
    }
  return finding;
}

// What torch's clip_grad_norm_ multiplies by, and the same without its 1e-6.
std::vector<double> clip_factors(const Trial& trial, const std::vector<at::Tensor>& gradient) {
  if (!trial.clip_norm) return {1};
  const double size = norm(gradient);
  return {std::min(1.0, *trial.clip_norm / (size + 1e-6)), std::min(1.0, *trial.clip_norm / size)};
}

void row(const Trial& trial, Rows& rows, const std::string& name, const std::string& compared, double bound,
         const Finding& finding) {
  if (finding.wrong.empty()) return rows.measured(name, compared, finding.error, bound, "");
  const auto& expected = trial.expected[static_cast<size_t>(finding.step)];
  const size_t p = finding.wrong.front();
  const at::Tensor due = expected.gradient[p] * clip_factors(trial, expected.gradient).front();
  rows.measured(name, compared, finding.error, bound, place(trial, finding, due),
                likely_mistake(trial, finding.step, finding.rank, finding.wrong));
}

void judge_meaning(const Trial& trial, Rows& rows) {
  std::vector<std::vector<double>> factors;
  std::vector<double> floors;
  for (const auto& expected : trial.expected) {
    factors.push_back(clip_factors(trial, expected.gradient));
    floors.push_back(floor_share * norm(expected.gradient) * factors.back().front());
  }
  const auto finding = scan(trial, exact_bound, [&](int64_t step, int rank, size_t p) {
    const auto s = static_cast<size_t>(step);
    double best = std::numeric_limits<double>::infinity();
    for (const double factor : factors[s])
      best = std::min(best, relative_error(trial.reported(step, p, rank), trial.expected[s].gradient[p] * factor, floors[s]));
    return best;
  });
  row(trial, rows, trial.scenario.gradient_check, "gradient with the float64 oracle of its declared meaning", exact_bound,
      finding);
}

void judge_against_one_device(const Trial& trial, Rows& rows) {
  const std::string compared = "gradient with one device's, same rows, largest relative difference";
  double apart = 0;
  std::vector<double> floors;
  for (const auto& expected : trial.expected) {
    floors.push_back(floor_share * norm(expected.whole));
    for (size_t p = 0; p < trial.names.size(); ++p)
      apart = std::max(apart, relative_error(expected.gradient[p], expected.whole[p], floors.back()));
  }
  const auto finding = scan(trial, exact_bound, [&](int64_t step, int rank, size_t p) {
    const auto s = static_cast<size_t>(step);
    return relative_error(trial.reported(step, p, rank), trial.expected[s].whole[p], floors[s]);
  });
  if (apart < by_definition) return row(trial, rows, "gradient-vs-baseline", compared, exact_bound, finding);
  rows.skipped("gradient-vs-baseline", compared,
               "shown, not judged: what this strategy promises differs here by " + short_number(apart) +
                   " (a layer couples rows, or the loss is not a mean)",
               finding.error);
}

}  // namespace

void judge_gradients(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype != at::kDouble || trial.scenario.poison || trial.expected.empty()) return;
  judge_meaning(trial, rows);
  if (trial.scenario.name == "even") judge_against_one_device(trial, rows);
}

void judge_replay(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype == at::kDouble || trial.scenario.poison || trial.scenario.smooth || trial.expected.empty())
    return;
  const auto finding = scan(trial, 1, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const at::Tensor found = trial.reported(step, p, rank);
    if (!found.defined()) return std::numeric_limits<double>::infinity();
    at::Tensor sizes = at::zeros_like(expected.gradient[p]);
    for (size_t i = 0; i < expected.shards.size(); ++i)
      sizes += expected.shards[i].gradient[p].to(at::kDouble).abs() * expected.shares[i];
    const auto terms = static_cast<double>(expected.shards.size());
    const at::Tensor bound = sizes * gamma(terms + 1, unit_roundoff(found.scalar_type())) +
                             terms * smallest_subnormal(found.scalar_type());
    return largest_ratio(found, expected.gradient[p], bound);
  });
  row(trial, rows, trial.scenario.gradient_check,
      "gradient with each shard repeated in the same dtype and averaged in float64, in units of the rounding bound", 1,
      finding);
  if (!trial.workload().sum_loss()) return;
  const auto exact = scan(trial, 0, [&](int64_t step, int rank, size_t p) {
    const at::Tensor found = trial.reported(step, p, rank);
    const at::Tensor& expected = trial.expected[static_cast<size_t>(step)].gradient[p];
    return found.defined() && same_bits(found, expected.to(found.scalar_type())) ? 0.0 : 1.0;
  });
  row(trial, rows, "gradient-exact", "bits of a gradient whose sums are exact in any order", 0, exact);
}

void judge_accuracy(const Trial& trial, Rows& rows) {
  if (!trial.scenario.smooth || trial.expected.empty()) return;
  const double u = unit_roundoff(trial.scenario.dtype == at::kDouble ? at::kDouble : at::kFloat);
  const auto finding = scan(trial, 1, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const double single = relative_error(expected.single[p], expected.whole[p], floor_share * norm(expected.whole));
    const double bound = allowed_factor * std::max(single, 4 * u);
    return relative_error(trial.reported(step, p, rank), expected.gradient[p], floor_share * norm(expected.gradient)) /
           bound;
  });
  row(trial, rows, "gradient-accuracy", "gradient of the smooth twin with float64, in units of 8 times one device's error",
      1, finding);
}

}  // namespace dpbench
