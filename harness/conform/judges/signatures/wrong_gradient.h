// A wrong gradient and the gradients that known bugs would produce instead of it.
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/oracle/trial.h"

namespace dpbench {

using Gradients = std::vector<at::Tensor>;

// The wrong gradient that one rank reported in one step.
struct WrongGradient {
  const Trial& trial;
  const ExpectedStep& expected;
  int64_t step;
  int rank;
  std::vector<size_t> wrong;
  // the reported gradients by index of the parameter; undefined where the reported gradient is correct
  Gradients found;
  double tolerance;

  int64_t micros() const { return micros_in(trial.scenario, step); }
  bool alike(const Gradients& some, const Gradients& others) const {
    for (const size_t p : wrong)
      if (!(relative_error(some[p], others[p], 1e-300) <= tolerance)) return false;
    return true;
  }
  bool looks_like(const Gradients& candidate) const { return !candidate.empty() && alike(found, candidate); }
  // True if `candidate` (the gradient that a known bug produces) equals the reported gradient and differs from the
  // expected one, so a bug without effect is not blamed. With clipping the second condition is dropped, because
  // `expected` is not clipped.
  bool explained_by(const Gradients& candidate) const {
    return looks_like(candidate) && (trial.clip_norm || !alike(candidate, expected.gradient));
  }
  Gradients scaled(const Gradients& gradients, double factor) const {
    Gradients result;
    for (const auto& gradient : gradients) result.push_back(gradient * factor);
    return result;
  }
  // Returns the sum of the gradients of all forward passes (shards), each with its expected share times factor(shard).
  template <class Factor>
  Gradients weighted(Factor factor) const {
    std::vector<double> shares = expected.shares;
    for (size_t i = 0; i < shares.size(); ++i) shares[i] *= factor(expected.shards[i]);
    return combine(expected.shards, shares);
  }
  // Returns the sum of the gradients of the forward passes selected by `keep`, each with its expected share, times
  // `factor`.
  template <class Keep>
  Gradients only(Keep keep, double factor) const {
    return weighted([&](const Shard& shard) { return keep(shard) ? factor : 0; });
  }
};

// A known mistake, and the gradient of each parameter that it produces.
struct Signature {
  std::string mistake;
  Gradients gradients;
};

// Returns the gradients that bugs in the weights of micro-batches, ranks, samples and tokens produce.
std::vector<Signature> weight_signatures(const WrongGradient& c);
// Returns the gradients that bugs in clipping produce.
std::vector<Signature> clip_signatures(const WrongGradient& c);
// Returns the bug that explains why gradients were clipped by the norm `used` instead of the correct one; an empty
// string if no known bug does.
std::string wrong_norm(const WrongGradient& c, double used);
// Returns each rank's own gradient, without reduction; an empty list for strategies without ranks.
std::vector<Gradients> of_each_rank(const WrongGradient& c);

}  // namespace dpbench
