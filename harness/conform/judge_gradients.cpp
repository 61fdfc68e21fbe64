// Gradients against the oracle: in float64 against the mathematics, in the working dtype against a repetition of each shard.
#include <map>

#include <ATen/ATen.h>

#include "harness/conform/compare.h"
#include "harness/conform/judges.h"
#include "harness/conform/signatures.h"

namespace dpbench {
namespace {

constexpr double floor_share = 1e-3;   // of the global norm: below it a tensor's own norm says nothing
constexpr double allowed_factor = 8;   // of one device's own rounding error, on smooth models
constexpr double weighted_backward = 128;  // units of rounding that weighting a loss, and so all behind it, may make
constexpr double weighted_halves = 32;     // the same where some of it is in float16 or bfloat16
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
  for (int64_t step = trial.scenario.judged_from; step < static_cast<int64_t>(trial.expected.size()); ++step)
    for (int rank = 0; rank < static_cast<int>(trial.ranks.size()); ++rank) {
      std::vector<size_t> wrong;
      for (size_t p = 0; p < trial.names.size(); ++p) {
        if (!trial.expected[static_cast<size_t>(step)].used[p]) continue;
        if (rank > 0 && trial.expected[static_cast<size_t>(step)].own.empty() && trial.reported(step, p, rank).is_same(trial.reported(step, p))) continue;  // as rank 0's
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
  const auto& gradient = expected.gradient_of(finding.rank);
  const at::Tensor due = gradient[p] * clip_factors(trial, gradient).front();
  rows.measured(name, compared, finding.error, bound, place(trial, finding, due),
                likely_mistake(trial, finding.step, finding.rank, finding.wrong));
}

// What rounding may do to each element where `type` is what gradients are summed in; 1 more for the type they come from.
at::Tensor rounding_bound(const ExpectedStep& expected, int rank, size_t p, at::ScalarType type, double more = 1) {
  at::Tensor sizes = at::zeros_like(expected.gradient[p]);
  double terms = 0;
  for (size_t i = 0; i < expected.shards.size(); ++i) {
    if (expected.alone[p] && expected.shards[i].replica != rank) continue;
    sizes += expected.shards[i].gradient[p].to(at::kDouble).abs() *
             (expected.shares[i] * (expected.alone[p] ? expected.alone_share : 1));
    ++terms;
  }
  return sizes * gamma(terms + more, unit_roundoff(type)) + terms * smallest_subnormal(type);
}

at::ScalarType coarser(at::ScalarType a, at::ScalarType b) { return unit_roundoff(a) > unit_roundoff(b) ? a : b; }

// A gradient went through all layers behind its own, whatever type they are of.
double weighting_bound(const Trial& trial, int64_t step, int rank) {
  at::ScalarType type = trial.scenario.dtype;
  for (size_t p = 0; p < trial.names.size(); ++p)
    if (const at::Tensor found = trial.reported(step, p, rank); found.defined()) type = coarser(type, found.scalar_type());
  return (at::isReducedFloatingType(type) ? weighted_halves : weighted_backward) * unit_roundoff(type);
}

// Where gradients travel in a narrower type. Clipping multiplies by the norm of what arrived.
void judge_compressed(const Trial& trial, at::ScalarType type, Rows& rows) {
  const auto finding = scan(trial, 1, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const double factor = clip_factors(trial, expected.gradient).front();
    // What is not sent at all is not rounded to be sent.
    const auto bound_of = [&](size_t q) { return rounding_bound(expected, rank, q, expected.alone[q] ? at::kFloat : type, 2); };
    at::Tensor bound = bound_of(p) * factor;
    if (factor < 1) {
      std::vector<at::Tensor> bounds;
      for (size_t q = 0; q < trial.names.size(); ++q) bounds.push_back(bound_of(q));
      bound += expected.gradient[p].abs() * (1.1 * factor * norm(bounds) / norm(expected.gradient));
    }
    return largest_ratio(trial.reported(step, p, rank), expected.gradient_of(rank)[p] * factor, bound);
  });
  row(trial, rows, trial.scenario.gradient_check,
      "gradient with the float64 oracle of its declared meaning, in units of the rounding bound of " +
          std::string(at::toString(type)),
      1, finding);
}

void judge_meaning(const Trial& trial, Rows& rows) {
  if (const auto type = trial.bench.strategy.reduced_in) return judge_compressed(trial, *type, rows);
  std::map<std::pair<int64_t, int>, std::pair<std::vector<double>, double>> known;  // factors and floor of (step, rank)
  const auto finding = scan(trial, exact_bound, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const auto& gradient = expected.gradient_of(rank);
    auto& [factors, floor] = known[{step, expected.own.empty() ? 0 : rank}];
    if (factors.empty()) {
      factors = clip_factors(trial, gradient);
      floor = floor_share * norm(gradient) * factors.front();
    }
    double best = std::numeric_limits<double>::infinity();
    for (const double factor : factors)
      best = std::min(best, relative_error(trial.reported(step, p, rank), gradient[p] * factor, floor));
    return best;
  });
  row(trial, rows, trial.scenario.gradient_check, "gradient with the float64 oracle of its declared meaning", exact_bound,
      finding);
}

void judge_against_one_device(const Trial& trial, Rows& rows) {
  const std::string compared = "gradient with one device's, same rows, largest relative difference";
  const bool narrow = trial.bench.strategy.reduced_in.has_value();
  double apart = 0;
  std::vector<double> floors;
  for (const auto& expected : trial.expected) {
    floors.push_back(floor_share * norm(expected.whole));
    for (size_t p = 0; p < trial.names.size(); ++p)
      apart = std::max(apart, relative_error(expected.gradient_of(0)[p], expected.whole[p], floors.back()));
  }
  const auto finding = scan(trial, exact_bound, [&](int64_t step, int rank, size_t p) {
    const auto s = static_cast<size_t>(step);
    return relative_error(trial.reported(step, p, rank), trial.expected[s].whole[p], floors[s]);
  });
  if (apart < by_definition && !narrow) return row(trial, rows, "gradient-vs-baseline", compared, exact_bound, finding);
  rows.skipped("gradient-vs-baseline", compared,
               narrow ? "shown, not judged: gradients travel in a narrower type, as asked"
                      : "shown, not judged: what this strategy promises differs here by " + short_number(apart) +
                            " (a layer couples rows, or the loss is not a mean)",
               finding.error);
}

// Are ranks' losses weighted each in its own way? Then a backward pass rounds otherwise than that of its shard alone.
bool weighted(const ExpectedStep& expected) {
  for (const double share : expected.shares)
    if (share != expected.shares.front()) return true;
  return false;
}

}  // namespace

void judge_gradients(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype != at::kDouble || trial.scenario.poison || trial.expected.empty()) return;
  judge_meaning(trial, rows);
  const auto meaning = trial.bench.strategy.gradient;
  const bool of_all_rows = meaning == Gradient::gathered || meaning == Gradient::global_mean;
  if (trial.scenario.against_one_device && (trial.scenario.rows == Split::even || of_all_rows)) judge_against_one_device(trial, rows);
}

void judge_replay(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype == at::kDouble || trial.scenario.poison || trial.scenario.smooth || trial.expected.empty())
    return;
  const auto narrow = trial.bench.strategy.reduced_in;
  if (trial.bench.strategy.buffers == Buffers::synchronised)
    return rows.skipped(trial.scenario.gradient_check, "gradient with each shard repeated in the same dtype",
                        "a shard alone does not repeat what ranks that share BatchNorm's statistics compute");
  const auto finding = scan(trial, 1, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const at::Tensor found = trial.reported(step, p, rank);
    if (!found.defined()) return std::numeric_limits<double>::infinity();
    if (weighted(expected) && !narrow)
      return relative_error(found, expected.gradient[p], floor_share * norm(expected.gradient)) /
             weighting_bound(trial, step, rank);
    const at::Tensor bound = narrow ? rounding_bound(expected, rank, p, coarser(*narrow, found.scalar_type()), 2)
                                    : rounding_bound(expected, rank, p, found.scalar_type());
    return largest_ratio(found, expected.gradient_of(rank)[p], bound);
  });
  row(trial, rows, trial.scenario.gradient_check,
      "gradient with each shard repeated in the same dtype and averaged in float64, in units of the rounding bound", 1,
      finding);
  if (!trial.workload().sum_loss()) return;
  if (narrow)
    return rows.skipped("gradient-exact", "bits of a gradient whose sums are exact in any order",
                        "gradients travel in " + std::string(at::toString(*narrow)) + ", as asked");
  const auto exact = scan(trial, 0, [&](int64_t step, int rank, size_t p) {
    const at::Tensor found = trial.reported(step, p, rank);
    const at::Tensor& expected = trial.expected[static_cast<size_t>(step)].gradient_of(rank)[p];
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
    const auto& gradient = expected.gradient_of(rank);
    return relative_error(trial.reported(step, p, rank), gradient[p], floor_share * norm(gradient)) / bound;
  });
  row(trial, rows, "gradient-accuracy", "gradient of the smooth twin with float64, in units of 8 times one device's error",
      1, finding);
}

void judge_strides(const Trial& trial, Rows& rows) {
  for (const auto& evidence : trial.ranks)
    for (size_t step = 0; step < evidence.steps.size(); ++step)
      rows.judged("gradient-layout", "strides of each gradient with its parameter's where that is dense, else row by row, as torch promises",
                  evidence.steps[step].laid_out.empty(),
                  [&] {
                    return "parameter " + evidence.steps[step].laid_out + ", rank " + std::to_string(evidence.rank) + ", step " +
                           std::to_string(step) + ", scenario " + trial.scenario.name;
                  },
                  "right numbers that a kernel which goes by memory, as a fused optimizer does, takes for those of other elements");
}

}  // namespace dpbench
