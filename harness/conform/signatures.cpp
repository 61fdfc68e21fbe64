#include "harness/conform/signatures.h"

#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/compare.h"

namespace dpbench {
namespace {

using Gradients = std::vector<at::Tensor>;

struct Case {
  const Trial& trial;
  const ExpectedStep& expected;
  int64_t step;
  int rank;
  std::vector<size_t> wrong;
  Gradients found;  // by parameter, only the wrong ones filled
  double tolerance;

  bool looks_like(const Gradients& candidate) const {
    if (candidate.empty()) return false;
    for (const size_t p : wrong)
      if (!(relative_error(found[p], candidate[p], 1e-300) <= tolerance)) return false;
    return true;
  }
  Gradients scaled(const Gradients& gradients, double factor) const {
    Gradients result;
    for (const auto& gradient : gradients) result.push_back(gradient * factor);
    return result;
  }
  // The sum of those shards alone that `keep` lets through, each with its share times `factor`.
  template <class Keep>
  Gradients only(Keep keep, double factor) const {
    std::vector<double> shares = expected.shares;
    for (size_t i = 0; i < shares.size(); ++i) shares[i] *= keep(expected.shards[i]) ? factor : 0;
    return combine(expected.shards, shares);
  }
};

struct Signature {
  std::string mistake;
  Gradients gradients;
};

std::string ratio_text(double ratio) { return short_number(ratio) + " times what they should be"; }

// Factors by which a gradient is off when something is divided or multiplied once too often.
std::vector<std::pair<double, std::string>> known_factors(const Trial& trial) {
  const double world = trial.world(), micro = static_cast<double>(trial.scenario.accumulate);
  std::vector<std::pair<double, std::string>> factors = {{0, "never reduced into place, or zeroed after the backward"}};
  if (world > 1) {
    factors.emplace_back(world, "summed over " + short_number(world) + " ranks or replicas, not averaged");
    factors.emplace_back(1 / world, "averaged over " + short_number(world) + " ranks or replicas once too often");
    factors.emplace_back(world / (world - 1), "divided by one rank too few");
    factors.emplace_back(world / (world + 1), "divided by one rank too many");
  }
  if (micro > 1) {
    factors.emplace_back(micro, "not divided by the " + short_number(micro) + " micro-batches");
    factors.emplace_back(1 / micro, "divided by the micro-batches twice");
  }
  factors.emplace_back(2, "counted twice");
  factors.emplace_back(-1, "of the wrong sign");
  return factors;
}

std::string by_factor(const Case& c) {
  double products = 0, squares = 0;
  for (const size_t p : c.wrong) {
    products += (c.found[p] * c.expected.gradient[p]).sum().item<double>();
    squares += c.expected.gradient[p].square().sum().item<double>();
  }
  if (!(squares > 0)) return "";
  const double ratio = products / squares;
  for (const auto& [factor, mistake] : known_factors(c.trial)) {
    if (std::abs(ratio - factor) > 100 * c.tolerance) continue;
    const auto candidate = c.scaled(c.expected.gradient, factor);
    if (factor == 0 ? std::abs(ratio) == 0 && norm(c.found) == 0 : c.looks_like(candidate))
      return "gradients are " + ratio_text(factor) + ": " + mistake;
  }
  if (!c.looks_like(c.scaled(c.expected.gradient, ratio))) return "";
  const double size = norm(c.expected.gradient);
  if (c.trial.clip_norm && std::abs(ratio - 1) < 1e-9) return "the norm was not limited";
  if (c.trial.clip_norm && ratio * size < *c.trial.clip_norm) return "clipped more than asked: before the reduction?";
  return std::abs(ratio - 1) < 0.01 ? "" : "gradients are " + ratio_text(ratio);
}

bool same_on_all_ranks(const Case& c) {
  for (int rank = 1; rank < static_cast<int>(c.trial.ranks.size()); ++rank)
    for (const size_t p : c.wrong)
      if (!same_bits(c.trial.reported(c.step, p, rank), c.trial.reported(c.step, p))) return false;
  return true;
}

std::vector<Signature> shard_signatures(const Case& c) {
  const double world = c.trial.world();
  const int64_t last = c.trial.scenario.accumulate - 1;
  std::vector<Signature> list;
  if (c.rank > 0 || !same_on_all_ranks(c))
    list.push_back({"this rank's own gradient: not reduced",
                    c.only([&](const Shard& shard) { return shard.replica == c.rank; }, world)});
  list.push_back({"rank 0's own gradient: broadcast, not reduced",
                  c.only([](const Shard& shard) { return shard.replica == 0; }, world)});
  for (int r = 0; r < c.trial.world() && world > 1; ++r) {
    const auto others = [r](const Shard& shard) { return shard.replica != r; };
    const auto name = std::to_string(r);
    list.push_back({"the part of rank or replica " + name + " is missing", c.only(others, 1)});
    list.push_back({"rank " + name + " was left out of the mean", c.only(others, world / (world - 1))});
    list.push_back({"the part of replica " + name + " alone", c.only([r](const Shard& s) { return s.replica == r; }, 1)});
  }
  if (last == 0) return list;
  const auto of_last = [last](const Shard& shard) { return shard.micro == last; };
  const auto micro = static_cast<double>(last + 1);
  list.push_back({"the last micro-batch alone: it overwrote the others", c.only(of_last, 1)});
  list.push_back({"the last micro-batch alone: it overwrote the others, undivided", c.only(of_last, micro)});
  list.push_back({"the first micro-batch alone", c.only([](const Shard& s) { return s.micro == 0; }, 1)});
  return list;
}

std::vector<Signature> meaning_signatures(const Case& c) {
  const Trial& trial = c.trial;
  std::vector<Signature> list;
  const std::pair<Gradient, const char*> meanings[] = {{Gradient::mean_of_means, "the mean of the ranks' means"},
                                                       {Gradient::global_mean, "the mean over all rows"},
                                                       {Gradient::mean_of_active, "the mean of the means of ranks with rows"},
                                                       {Gradient::sum, "the sum of the ranks' gradients"}};
  for (const auto& [meaning, name] : meanings) {
    if (meaning == trial.bench.strategy.gradient || trial.bench.strategy.gradient == Gradient::gathered) continue;
    list.push_back({std::string(name) + ", which is not the meaning declared",
                    combine(c.expected.shards, shares(c.expected.shards, meaning, trial.world(),
                                                      trial.scenario.accumulate, trial.workload().sum_loss()))});
  }
  if (!c.expected.whole.empty())
    list.push_back({"what one device makes of the whole batch, which is not the meaning declared", c.expected.whole});
  if (trial.clip_norm) list.push_back({"the norm was not limited", c.expected.gradient});
  return list;
}

std::vector<Signature> time_signatures(const Case& c) {
  if (c.step == 0) return {};
  const auto& earlier = c.trial.expected[static_cast<size_t>(c.step - 1)].gradient;
  Gradients kept, still;
  for (size_t p = 0; p < c.expected.gradient.size(); ++p) {
    const auto before = c.trial.reported(c.step - 1, p, c.rank);
    kept.push_back(before.defined() ? c.expected.gradient[p] + before.to(at::kDouble) : c.expected.gradient[p]);
    still.push_back(before.defined() ? before.to(at::kDouble) : at::zeros_like(c.expected.gradient[p]));
  }
  return {{"the step before is still in it: gradients were not zeroed", kept},
          {"the gradient of the step before: one step late", earlier},
          {"the gradient of the step before: nothing new was written", still}};
}

bool permuted(const Case& c) {
  for (const size_t p : c.wrong) {
    const at::Tensor& expected = c.expected.gradient[p];
    if (c.found[p].sizes() != expected.sizes()) return false;
    if (!(relative_error(std::get<0>(c.found[p].flatten().sort()), std::get<0>(expected.flatten().sort()), 1e-300) <=
          c.tolerance))
      return false;
  }
  return true;
}

std::string by_precision(const Case& c) {
  double worst = 0;
  for (const size_t p : c.wrong) worst = std::max(worst, relative_error(c.found[p], c.expected.gradient[p], 1e-300));
  const std::pair<at::ScalarType, const char*> types[] = {
      {at::kFloat, "float32"}, {at::kHalf, "float16"}, {at::kBFloat16, "bfloat16"}};
  for (const auto& [type, name] : types)
    if (c.trial.scenario.dtype != type && worst < 4 * unit_roundoff(type))
      return std::string("rounded to ") + name + " on its way";
  return "";
}

std::string extent(const Case& c) {
  if (c.wrong.size() == c.expected.gradient.size()) return "";
  std::string names;
  for (size_t i = 0; i < c.wrong.size() && i < 3; ++i) names += (i ? ", " : "") + c.trial.names[c.wrong[i]];
  return " (" + std::to_string(c.wrong.size()) + " of " + std::to_string(c.expected.gradient.size()) +
         " parameters: " + names + (c.wrong.size() > 3 ? ", ..." : "") + ": one bucket?)";
}

std::string mistake_of(const Case& c) {
  for (const size_t p : c.wrong) {
    if (!c.found[p].defined()) return "a parameter that had a gradient was reported to have none";
    if (!c.found[p].isfinite().all().item<bool>()) return "not finite where the oracle is";
  }
  if (auto text = by_factor(c); !text.empty()) return text;
  for (const auto& list : {shard_signatures(c), meaning_signatures(c), time_signatures(c)})
    for (const auto& [mistake, gradients] : list)
      if (c.looks_like(gradients)) return mistake;
  if (permuted(c)) return "the right numbers in another order";
  return by_precision(c);
}

}  // namespace

std::string likely_mistake(const Trial& trial, int64_t step, int rank, const std::vector<size_t>& wrong) {
  ExpectedStep expected = trial.expected[static_cast<size_t>(step)];
  expected.gradient = expected.gradient_of(rank);
  Case c{trial, expected, step, rank, {}, Gradients(expected.gradient.size()),
         trial.scenario.dtype == at::kDouble ? 1e-10 : 1e-4};
  if (const auto narrow = trial.bench.strategy.reduced_in) c.tolerance = 8 * unit_roundoff(*narrow);
  for (const size_t p : wrong) {
    // A gradient that is zero up to rounding, as that of a bias before BatchNorm, has no direction to compare.
    if (expected.gradient[p].norm().item<double>() < 1e-9 * norm(expected.gradient) && wrong.size() > 1) continue;
    c.wrong.push_back(p);
    const at::Tensor found = trial.reported(step, p, rank);
    if (found.defined() && found.sizes() != expected.gradient[p].sizes()) return "of another shape than its parameter";
    if (found.defined()) c.found[p] = found.to(at::kDouble);
  }
  if (c.wrong.empty()) return "";
  const std::string mistake = mistake_of(c);
  return mistake.empty() ? "" : mistake + extent(c);
}

}  // namespace dpbench
