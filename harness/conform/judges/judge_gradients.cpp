// Compares a strategy's gradients with the oracle (the reference computation on one device): in float64 with its exact
// result, otherwise with a recomputation of each forward pass in the same dtype.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/judges/signatures/signatures.h"

namespace dpbench {
namespace {

// A parameter's gradient error is divided by the norm of its gradient, but by at least this fraction of the norm of all
// gradients together.
constexpr double floor_share = 1e-3;
// Multiple of one device's rounding error that is allowed in a gradient if it does not match the recomputation bit for
// bit.
constexpr double allowed_factor = 8;
// The gradient by the strategy's declared semantics and the gradient of a single device count as equal if they differ
// by less than this relative error.
constexpr double by_definition = 1e-9;

struct Finding {
  double error = 0;
  int64_t step = 0;
  int rank = 0;
  std::vector<size_t> wrong;
};

std::string place(const Trial& trial, const Finding& finding, const at::Tensor& expected) {
  const size_t p = finding.wrong.front();
  return "parameter " + trial.names[p] + ", " +
         first_difference(trial.reported(finding.step, p, finding.rank), expected) +
         trial.place(finding.rank, finding.step);
}

// Calls measure(step, rank, parameter) for every expected gradient. If several ranks report the same tensor object,
// calls it only for the first of them. Returns the largest error and the first place where an error exceeds the bound.
template <class Measure>
Finding scan(const Trial& trial, double bound, Measure measure) {
  Finding finding;
  for (int64_t step = trial.scenario.judged_from; step < static_cast<int64_t>(trial.expected.size()); ++step)
    for (int rank = 0; rank < static_cast<int>(trial.ranks.size()); ++rank) {
      std::vector<size_t> wrong;
      for (size_t p = 0; p < trial.names.size(); ++p) {
        if (!trial.expected[static_cast<size_t>(step)].used[p]) continue;
        if (rank > 0 && trial.expected[static_cast<size_t>(step)].own.empty() &&
            trial.reported(step, p, rank).is_same(trial.reported(step, p)))
          continue;  // rank 0 reported the same tensor object, which has been judged already
        const double measured = measure(step, rank, p);
        // A NaN error counts as infinite, so that the check fails.
        const double error = std::isnan(measured) ? std::numeric_limits<double>::infinity() : measured;
        finding.error = std::max(finding.error, error);
        if (!(error <= bound)) wrong.push_back(p);
      }
      if (!wrong.empty() && finding.wrong.empty()) finding.step = step, finding.rank = rank, finding.wrong = wrong;
    }
  return finding;
}

// Returns the clipping factors that are accepted: torch's clip_grad_norm_ factor, and the same without its epsilon of
// 1e-6.
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

// Returns the bound of each element's rounding error in a gradient that is summed in `type`. more: number of roundings
// besides those of the sum, by default one for the conversion to the gradient's own dtype.
at::Tensor rounding_bound(const ExpectedStep& expected, int rank, size_t p, at::ScalarType type, double more = 1) {
  at::Tensor sizes = at::zeros_like(expected.gradient[p]);
  double terms = 0;
  for (size_t i = 0; i < expected.shards.size(); ++i) {
    if (expected.unreduced[p] && expected.shards[i].replica != rank) continue;
    sizes += expected.shards[i].gradient[p].to(at::kDouble).abs() *
             (expected.shares[i] * (expected.unreduced[p] ? expected.unreduced_share : 1));
    ++terms;
  }
  return sizes * gamma(terms + more, unit_roundoff(type)) + terms * smallest_subnormal(type);
}

// Returns the coarsest of `type` and the dtypes of all reported gradients: every gradient passes through the layers
// after its own, in the dtypes of those layers.
at::ScalarType coarsest(const Trial& trial, int64_t step, int rank, at::ScalarType type) {
  for (size_t p = 0; p < trial.names.size(); ++p)
    if (const at::Tensor found = trial.reported(step, p, rank); found.defined())
      type = coarser(type, found.scalar_type());
  return type;
}

// The clipping factor, and the relative rounding error (slack) allowed for it.
struct Clipped {
  double factor = 1, slack = 0;
};

// Returns the expected clipping factor. bound_of(p): error bound for the reduced gradient of parameter p. type: the
// coarsest dtype of the gradients.
template <class BoundOf>
Clipped clipped(const Trial& trial, const std::vector<at::Tensor>& gradient, at::ScalarType type,
                const BoundOf& bound_of) {
  if (!trial.clip_norm) return {};
  // Allowed rounding error of a norm of n elements, in units of sqrt(n) times the roundoff, because the error of a sum
  // of n squares grows with sqrt(n).
  constexpr double roots = 4;
  double count = 0;
  std::vector<at::Tensor> bounds;
  for (size_t p = 0; p < gradient.size(); ++p)
    bounds.push_back(bound_of(p)), count += static_cast<double>(gradient[p].numel());
  const double size = norm(gradient);
  if (size == 0) return {};
  const double u = unit_roundoff(type);
  const double slack =
      1.1 * norm(bounds) / size + roots * std::sqrt(count) * std::min(u, unit_roundoff(at::kFloat)) + 2 * u;
  // The gradient's norm is below the limit, so no clipping is expected.
  if (*trial.clip_norm > size * (1 + slack)) return {};
  return {clip_factors(trial, gradient).front(), slack};
}

// True if `found` was rounded to `type` and at most divided by `divisor` afterwards: all of its elements, times the
// divisor, are representable in `type`, and many elements of `expected` are not.
bool was_rounded_to(at::ScalarType type, const at::Tensor& found, const at::Tensor& expected, double divisor) {
  // Minimum number of elements of `expected` that are not representable in `type`, to rule out a match by chance.
  constexpr int64_t enough = 16;
  const double slack = divisor == 1 ? 0 : 4 * unit_roundoff(at::kFloat);
  const auto count_others = [&](const at::Tensor& tensor) {
    const at::Tensor value = tensor.to(at::kDouble) * divisor;
    return (value - value.to(type).to(at::kDouble)).abs().gt(value.abs() * slack).sum().item<int64_t>();
  };
  return count_others(found) == 0 && count_others(expected.to(found.scalar_type())) >= enough;
}

// True if a gradient was sent in a narrower dtype than its own. Scenarios in bfloat16 do not test for float16: it has
// three more bits, so sums of a few bfloat16 gradients are often representable in it.
bool sent_narrower(const Trial& trial, const at::Tensor& found, const at::Tensor& expected) {
  std::vector<at::ScalarType> types = {at::kBFloat16};
  if (trial.scenario.dtype != at::kBFloat16) types.push_back(at::kHalf);
  for (const auto type : types)
    for (const double divisor : {1.0, static_cast<double>(trial.world())})
      if (found.scalar_type() != type && was_rounded_to(type, found, expected, divisor)) return true;
  return false;
}

// True if a gradient is much closer to the float64 gradient than a pass in bfloat16 can be. The strategy then ignored
// autocast.
bool computed_wider(const Trial& trial, const at::Tensor& found, const at::Tensor& exact, double rounding) {
  if (trial.scenario.dtype != at::kBFloat16 || found.numel() == 0) return false;
  return (found.to(at::kDouble) - exact).abs().max().item<double>() < rounding / 64;
}

// Returns the names of the experts' parameters if the mesh uses expert parallelism; otherwise an empty set.
std::set<std::string> exchanged_experts(const Trial& trial) {
  std::set<std::string> names;
  const int ranks = size_of(trial.bench.distribution.mesh_of_ranks(), &KnownAxis::cuts_experts);
  if (ranks == 1) return names;
  for (const TensorCut& one : first_model(trial.bench)->expert_plan(ranks).cuts) names.insert(one.name);
  return names;
}

// Compares gradients with a recomputation of the same forward passes. other: the steps recomputed in another dtype,
// which shows the rounding error of a pass; may be null. Without `other`, the gradient of each forward pass must be
// bit-identical, and only the sum over the passes may round differently. With `other`, the passes may round differently
// too, by a multiple of that rounding error.
Finding replay(const Trial& trial, const OtherPass* other) {
  const auto narrow = trial.bench.strategy.reduced_in;
  const std::set<std::string> experts = other ? exchanged_experts(trial) : std::set<std::string>();
  std::map<std::pair<int64_t, int>, Clipped> cache;  // accepted clipping factors, by step and rank
  return scan(trial, 1, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const auto& gradient = expected.gradient_of(rank);
    const at::Tensor found = trial.reported(step, p, rank);
    if (!found.defined()) return std::numeric_limits<double>::infinity();
    const auto bound_of = [&](size_t q) {
      const at::Tensor its = trial.reported(step, q, rank);
      const auto own = its.defined() ? its.scalar_type() : at::kFloat;
      // The gradient of a parameter that is local to a rank is not communicated, so it is not rounded to the narrower
      // dtype.
      const auto type = narrow && !expected.unreduced[q] ? coarser(*narrow, own) : own;
      // Clipping rounds a gradient twice: its factor is rounded, and so is its product with the gradient.
      const double roundings = (narrow ? 2 : 1) + (trial.clip_norm ? 2 : 0);
      const at::Tensor bound = rounding_bound(expected, rank, q, type, roundings);
      return other ? bound + allowed_factor * other->rounding[q] : bound;
    };
    const auto [entry, fresh] = cache.try_emplace({step, rank});
    if (fresh) entry->second = clipped(trial, gradient, coarsest(trial, step, rank, at::kDouble), bound_of);
    const auto [factor, slack] = entry->second;
    const at::Tensor due = gradient[p] * factor;
    // A gradient that is zero up to rounding, such as that of the bias of an attention key, does not show its dtype:
    // its few bits are representable in any dtype.
    const bool cancels = other && largest_element(gradient[p]) <= allowed_factor * other->rounding[p];
    if (other && !narrow && !cancels) {
      const at::Tensor exact = other->expected[static_cast<size_t>(step)].gradient_of(rank)[p] * factor;
      // An expert computes the tokens of all ranks at once, so under autocast its gradient is rounded once. And where
      // router scores are almost equal, rounding may send a token to another expert than in the oracle's pass.
      const bool rounded_once = trial.scenario.dtype == at::kBFloat16 && experts.contains(trial.names[p]);
      if ((!rounded_once && sent_narrower(trial, found, due)) ||
          (experts.empty() && computed_wider(trial, found, exact, other->rounding[p] * factor)))
        return std::numeric_limits<double>::infinity();
    }
    return largest_ratio(found, due, bound_of(p) * factor + gradient[p].abs() * (factor * slack));
  });
}

Finding replay(const Trial& trial) {
  Finding finding = replay(trial, nullptr);
  if (finding.wrong.empty()) return finding;
  const OtherPass other = other_pass(trial);
  return replay(trial, &other);
}

// Compares gradients with the oracle's in float64. After a slight difference, compares them once more, with bounds that
// allow the oracle's own rounding errors (from the same steps in float32): the gradient of a bias before BatchNorm, for
// example, is a sum of terms that cancel.
template <class Compare>
Finding within_rounding(const Trial& trial, Compare compare) {
  Finding finding = compare(nullptr);
  if (finding.wrong.empty() || finding.error > by_definition) return finding;
  const OtherPass other = other_pass(trial);
  return compare(&other);
}

// Returns the smallest norm by which the error of parameter p's gradient may be divided. With `other`, the same steps
// in another dtype, it is large enough to keep an error that rounding can cause below exact_bound.
double least_norm(double floor, const at::Tensor& expected, size_t p, const OtherPass* other) {
  if (!other) return floor;
  const auto elements = static_cast<double>(expected.numel());
  return std::max(floor, allowed_factor * other->rounding[p] * std::sqrt(elements) / exact_bound);
}

void judge_meaning(const Trial& trial, Rows& rows) {
  if (const auto type = trial.bench.strategy.reduced_in)
    return row(trial, rows, trial.scenario.gradient_check,
               "gradient with the float64 oracle of the declared semantics, in units of the rounding bound of " +
                   std::string(at::toString(*type)),
               1, replay(trial));
  // Results that are the same for all parameters, by step and rank: the accepted clipping factors, and the smallest
  // norm by which a gradient's error is divided.
  std::map<std::pair<int64_t, int>, std::pair<std::vector<double>, double>> cache;
  const auto finding = within_rounding(trial, [&](const OtherPass* other) {
    return scan(trial, exact_bound, [&](int64_t step, int rank, size_t p) {
      const auto& expected = trial.expected[static_cast<size_t>(step)];
      const auto& gradient = expected.gradient_of(rank);
      auto& [factors, floor] = cache[{step, expected.own.empty() ? 0 : rank}];
      if (factors.empty()) {
        factors = clip_factors(trial, gradient);
        floor = floor_share * norm(gradient) * factors.front();
      }
      double best = std::numeric_limits<double>::infinity();
      for (const double factor : factors)
        best = std::min(best, relative_error(trial.reported(step, p, rank), gradient[p] * factor,
                                             least_norm(floor, gradient[p], p, other)));
      return best;
    });
  });
  row(trial, rows, trial.scenario.gradient_check, "gradient with the float64 oracle of the declared semantics",
      exact_bound, finding);
}

void judge_against_one_device(const Trial& trial, Rows& rows) {
  const std::string compared = "gradient with one device's for the same samples, largest relative difference";
  const bool narrow = trial.bench.strategy.reduced_in.has_value();
  double apart = 0;
  std::vector<double> floors;
  for (const auto& expected : trial.expected) {
    floors.push_back(floor_share * norm(expected.whole));
    for (size_t p = 0; p < trial.names.size(); ++p)
      apart = std::max(apart, relative_error(expected.gradient_of(0)[p], expected.whole[p], floors.back()));
  }
  const auto finding = within_rounding(trial, [&](const OtherPass* other) {
    return scan(trial, exact_bound, [&](int64_t step, int rank, size_t p) {
      const auto s = static_cast<size_t>(step);
      const at::Tensor& whole = trial.expected[s].whole[p];
      return relative_error(trial.reported(step, p, rank), whole, least_norm(floors[s], whole, p, other));
    });
  });
  if (apart < by_definition && !narrow) return row(trial, rows, "gradient-vs-baseline", compared, exact_bound, finding);
  rows.skipped(
      "gradient-vs-baseline", compared,
      narrow
          ? "shown, not judged: gradients are communicated in a narrower dtype, as requested"
          : "shown, not judged: the strategy's declared semantics differ here by " + short_number(apart) +
                " (a layer couples samples, ranks pad their samples to different lengths, or the loss is not a mean)",
      finding.error);
}

// True if averaging by a product with 1/R and by a division by R give the same bits for the gradient of each forward
// pass, R being the world size. Always true if R is a power of two. In float32, false for some multiples of R if R is
// 7, 13 and others.
bool divides_exactly(const Trial& trial) {
  const double world = trial.world();
  for (const auto& expected : trial.expected)
    for (const Shard& shard : expected.shards)
      for (const at::Tensor& gradient : shard.gradient) {
        const at::Tensor reciprocal = at::full({}, 1 / world, gradient.options());
        if (!at::equal((gradient * reciprocal).to(at::kDouble), gradient.to(at::kDouble) / world)) return false;
      }
  return true;
}

}  // namespace

void judge_gradients(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype != at::kDouble || trial.scenario.poison || trial.expected.empty()) return;
  judge_meaning(trial, rows);
  const auto meaning = trial.bench.strategy.gradient;
  const bool of_all_samples = meaning == Gradient::gathered || meaning == Gradient::global_mean;
  if (trial.scenario.against_one_device && (trial.scenario.split == Split::even || of_all_samples))
    judge_against_one_device(trial, rows);
}

void judge_replay(const Trial& trial, Rows& rows) {
  if (trial.scenario.dtype == at::kDouble || trial.scenario.poison || trial.scenario.smooth || trial.expected.empty())
    return;
  const auto narrow = trial.bench.strategy.reduced_in;
  if (trial.couples_samples())
    return rows.skipped(trial.scenario.gradient_check, "gradient with each shard replayed in the same dtype",
                        "with shared BatchNorm statistics a shard cannot be replayed by itself");
  // Workloads with a sum as their loss (probe-exact, gpt-exact and its variants) are checked on GPUs too: their sums
  // are exact on every device.
  if (!trial.bench.devices.front().is_cpu() && !trial.workload().sum_loss())
    return rows.skipped(
        trial.scenario.gradient_check, "gradient with each shard replayed in the same dtype",
        "GPU kernels round differently from the CPU kernels of the replay; see gradient-accuracy instead");
  row(trial, rows, trial.scenario.gradient_check,
      "gradient with each shard replayed in the same dtype and averaged in float64, in units of the rounding bound", 1,
      replay(trial));
  // The check gradient-exact needs sums without rounding. It therefore runs only if the workload's loss is a sum, a
  // step has one micro-batch, and gradients are not clipped.
  if (!trial.workload().sum_loss() || trial.scenario.accumulate > 1 || trial.clip_norm) return;
  if (narrow)
    return rows.skipped("gradient-exact", "bits of a gradient with sums that are exact in any order",
                        "gradients are communicated in " + std::string(at::toString(*narrow)) + ", as requested");
  if (!divides_exactly(trial))
    return rows.skipped(
        "gradient-exact", "bits of a gradient with sums that are exact in any order",
        "1/" + std::to_string(trial.world()) + " is rounded too much to divide these gradients exactly");
  const auto exact = scan(trial, 0, [&](int64_t step, int rank, size_t p) {
    const at::Tensor found = trial.reported(step, p, rank);
    const at::Tensor& expected = trial.expected[static_cast<size_t>(step)].gradient_of(rank)[p];
    // The bits are compared after adding +0, which turns -0 into +0, because the sign of a zero sum depends on the
    // order of summation.
    return found.defined() && same_bits(found + 0.0, expected.to(found.scalar_type()) + 0.0) ? 0.0 : 1.0;
  });
  row(trial, rows, "gradient-exact", "bits of a gradient with sums that are exact in any order", 0, exact);
}

void judge_accuracy(const Trial& trial, Rows& rows) {
  if (!trial.scenario.smooth || trial.expected.empty()) return;
  const double u = unit_roundoff(trial.scenario.dtype == at::kDouble ? at::kDouble : at::kFloat);
  const auto finding = scan(trial, 1, [&](int64_t step, int rank, size_t p) {
    const auto& expected = trial.expected[static_cast<size_t>(step)];
    const double floor = floor_share * norm(expected.whole);
    const auto error_of = [&](const std::vector<at::Tensor>& single) {
      return std::max(4 * u, relative_error(single[p], expected.whole[p], floor));
    };
    double single = error_of(expected.single);
    // A GPU's own error may raise the bound, because its kernels round differently, but only by a small factor: TF32
    // would have about a thousand times the error.
    if (!expected.single_on_device.empty())
      single = std::max(single, std::min(error_of(expected.single_on_device), allowed_factor * single));
    const double bound = allowed_factor * single;
    const auto& gradient = expected.gradient_of(rank);
    return relative_error(trial.reported(step, p, rank), gradient[p], floor_share * norm(gradient)) / bound;
  });
  row(trial, rows, "gradient-accuracy",
      "gradient of a smooth model with float64, in units of 8 times one device's error", 1, finding);
}

void judge_strides(const Trial& trial, Rows& rows) {
  for (const auto& evidence : trial.ranks)
    for (size_t step = 0; step < evidence.steps.size(); ++step)
      rows.judged(
          "gradient-layout",
          "strides of each gradient with torch's contract: its parameter's if those are dense, else row-major",
          evidence.steps[step].wrong_strides.empty(),
          [&] {
            return "parameter " + evidence.steps[step].wrong_strides +
                   trial.place(evidence.rank, static_cast<int64_t>(step));
          },
          "the values are right, but kernels that work in memory order (e.g. fused optimizers) assign them to other "
          "elements");
}

}  // namespace dpbench
