#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/conform/judges/signatures/wrong_gradient.h"

namespace dpbench {

std::vector<Gradients> of_each_rank(const WrongGradient& c) {
  std::vector<Gradients> result;
  if (c.trial.bench.distribution.parallelism != Parallelism::ranks) return result;
  for (int r = 0; r < c.trial.world(); ++r)
    result.push_back(c.only([r](const Shard& shard) { return shard.replica == r; }, c.trial.world()));
  return result;
}

std::vector<Signature> clip_signatures(const WrongGradient& c) {
  if (!c.trial.clip_norm) return {};
  const double limit = *c.trial.clip_norm;
  const auto limited = [&](const Gradients& gradients, double size) {
    return c.scaled(gradients, std::min(1.0, limit / (size + 1e-6)));
  };
  Gradients each, values, mean;
  for (const auto& gradient : c.expected.gradient) {
    each.push_back(gradient * std::min(1.0, limit / std::max(gradient.norm().item<double>(), 1e-300)));
    values.push_back(gradient.clamp(-limit, limit));
  }
  const auto ranks = of_each_rank(c);
  for (const auto& own : ranks) {
    const auto part = c.scaled(limited(own, norm(own)), 1 / static_cast<double>(ranks.size()));
    for (size_t p = 0; p < part.size(); ++p)
      mean.size() <= p ? mean.push_back(part[p]) : void(mean[p] = mean[p] + part[p]);
  }
  return {{"the gradient was not clipped", c.expected.gradient},
          {"each parameter was clipped by its own norm", each},
          {"each element was clipped instead of the norm", values},
          {"each rank's gradient was clipped before the reduction", mean}};
}

std::string wrong_norm(const WrongGradient& c, double used) {
  const auto& due = c.expected.gradient;
  const double world = c.trial.world(), squares = std::pow(norm(due), 2);
  double largest = 0;
  for (const auto& gradient : due) largest = std::max(largest, largest_element(gradient));
  std::vector<std::pair<double, std::string>> norms = {{largest, "the largest element, not by the norm"}};
  if (const auto ranks = of_each_rank(c); world > 1 && !ranks.empty()) {
    norms.emplace_back(norm(ranks[static_cast<size_t>(c.rank)]), "the norm of this rank's own gradient");
    norms.emplace_back(norm(due) * world, "the norm of the sum of the ranks' gradients, not of their mean");
    norms.emplace_back(norm(due) * std::sqrt(world), "a norm to which each element was added once for each rank");
  }
  for (size_t p = 0; p < due.size(); ++p) {
    const auto names = static_cast<double>(c.trial.aliases[p].size());
    if (names > 1)
      norms.emplace_back(
          std::sqrt(squares + (names - 1) * due[p].square().sum().item<double>()),
          "a norm in which the tied parameter " + c.trial.names[p] + " was counted " + short_number(names) + " times");
  }
  // allowed difference between two norms, because torch's clip_grad_norm_ adds 1e-6 to the norm
  constexpr double epsilon = 1e-6;
  for (const auto& [size, name] : norms)
    if (std::abs(used - size) <= 2 * epsilon + c.tolerance * size) return "clipped by " + name;
  return "";
}

}  // namespace dpbench
