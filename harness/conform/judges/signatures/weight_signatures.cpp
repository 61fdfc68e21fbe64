#include <cmath>
#include <string>
#include <utility>

#include "harness/conform/judges/signatures/wrong_gradient.h"

namespace dpbench {
namespace {

// Returns the gradient that results if each micro-batch is weighted by the number of its loss terms (samples or
// tokens). If one loss covers the outputs of all replicas, the terms of all replicas count, otherwise those of the rank
// alone.
Gradients by_rows(const WrongGradient& c) {
  const bool gathered = c.trial.bench.strategy.gradient == Gradient::gathered;
  const auto rows_where = [&](const auto& counts) {
    double rows = 0;
    for (const auto& shard : c.expected.shards) rows += counts(shard) ? static_cast<double>(shard.terms) : 0;
    return rows;
  };
  std::vector<double> shares = c.expected.shares;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto same_owner = [&](const Shard& shard) {
      return gathered || shard.replica == c.expected.shards[i].replica;
    };
    const auto same_micro = [&](const Shard& shard) {
      return same_owner(shard) && shard.micro == c.expected.shards[i].micro;
    };
    shares[i] *= static_cast<double>(c.micros()) * rows_where(same_micro) / rows_where(same_owner);
  }
  return combine(c.expected.shards, shares);
}

// Returns the weighted mean of the forward passes' gradients; pass i has the weight weights[i].
Gradients mean_by(const WrongGradient& c, std::vector<double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
  return combine(c.expected.shards, weights);
}

// Returns the gradients that known bugs in a mean over all samples or tokens produce.
std::vector<Signature> term_signatures(const WrongGradient& c) {
  if (c.trial.bench.strategy.gradient != Gradient::global_mean || c.trial.workload().sum_loss()) return {};
  std::vector<double> rows, means;
  for (const auto& shard : c.expected.shards) {
    double terms = 0, micros = 0;
    for (const auto& other : c.expected.shards)
      if (other.replica == shard.replica) terms += static_cast<double>(other.terms), ++micros;
    rows.push_back(static_cast<double>(shard.output.size(0)));
    means.push_back(terms / micros);
  }
  return {{"weighted by samples, not by the terms of their loss, or padding was counted as tokens", mean_by(c, rows)},
          {"the mean of the micro-batches' means, although their losses have different numbers of terms",
           mean_by(c, means)}};
}

// Returns the gradients that known bugs in adding up micro-batches produce.
std::vector<Signature> micro_signatures(const WrongGradient& c) {
  const int64_t micros = c.micros(), last = micros - 1;
  if (micros == 1) return {};
  const auto count = static_cast<double>(micros);
  const auto of_last = [last](const Shard& shard) { return shard.micro == last; };
  std::vector<Signature> list = {
      {"each micro-batch was weighted by its samples", by_rows(c)},
      {"the last micro-batch only: it overwrote the others", c.only(of_last, 1)},
      {"the last micro-batch only, undivided: it overwrote the others", c.only(of_last, count)},
      {"the first micro-batch only", c.only([](const Shard& shard) { return shard.micro == 0; }, 1)},
      {"divided by the number of micro-batches after each micro-batch, not once",
       c.weighted([=](const Shard& shard) { return std::pow(count, static_cast<double>(shard.micro - last)); })},
      {"what had accumulated was added again after each micro-batch",
       c.weighted([=](const Shard& shard) { return static_cast<double>(micros - shard.micro); })}};
  if (c.trial.bench.distribution.owners() == 1) return list;
  // Returns the gradient that results if the first `some` micro-batches are not reduced: the mean over ranks covers
  // only the later micro-batches, and this rank adds its own gradients of the first ones.
  const auto without_reducing = [&](int64_t some) {
    return c.weighted([&](const Shard& shard) {
      return shard.micro >= some                           ? 1
             : shard.replica == c.trial.replica_of(c.rank) ? static_cast<double>(c.trial.world())
                                                           : 0;
    });
  };
  list.push_back({"the first micro-batch was not reduced: this rank's own was added", without_reducing(1)});
  list.push_back({"the last micro-batch alone was reduced: this rank's own were added", without_reducing(last)});
  return list;
}

std::vector<Signature> meaning_signatures(const WrongGradient& c) {
  const Trial& trial = c.trial;
  std::vector<Signature> list;
  const std::pair<Gradient, const char*> meanings[] = {
      {Gradient::mean_of_means, "the mean of the ranks' means"},
      {Gradient::global_mean, "the mean over all samples"},
      {Gradient::mean_of_active, "the mean of the means of ranks with samples"},
      {Gradient::sum, "the sum of the ranks' gradients"}};
  for (const auto& [meaning, name] : meanings) {
    if (meaning == trial.bench.strategy.gradient || trial.bench.strategy.gradient == Gradient::gathered) continue;
    list.push_back({std::string(name) + ", which is not the declared semantics",
                    combine(c.expected.shards, shares(c.expected.shards, meaning, trial.world(), c.micros(),
                                                      trial.workload().sum_loss()))});
  }
  if (!c.expected.whole.empty())
    list.push_back({"one device's gradient of the whole batch, which is not the declared semantics", c.expected.whole});
  if (trial.bench.strategy.gradient != Gradient::gathered) return list;
  // A known bug: the loss of a micro-batch is the mean of the replicas' own losses, not one loss over all samples. Each
  // forward pass gets the weight that its gradient has in that mean.
  std::vector<double> shares = c.expected.shares;
  for (size_t i = 0; i < shares.size(); ++i) {
    double rows = 0, pieces = 0;
    for (const auto& shard : c.expected.shards)
      if (shard.micro == c.expected.shards[i].micro) rows += static_cast<double>(shard.terms), ++pieces;
    shares[i] *= rows / (pieces * static_cast<double>(c.expected.shards[i].terms));
  }
  list.push_back(
      {"the mean of a loss for each replica, not one loss over all samples", combine(c.expected.shards, shares)});
  return list;
}

}  // namespace

std::vector<Signature> weight_signatures(const WrongGradient& c) {
  std::vector<Signature> all;
  for (const auto& list : {micro_signatures(c), meaning_signatures(c), term_signatures(c)})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace dpbench
