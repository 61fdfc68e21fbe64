#include "harness/conform/oracle/narrow_dtype.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"

namespace dpbench {
namespace {

using Gradients = std::vector<at::Tensor>;

struct Narrowing {
  const Trial& trial;
  const ExpectedStep& expected;
  const std::vector<size_t>& wrong;
  const Gradients& found;

  // Returns the sum of the ranks' accumulated gradients. Each rank rounds its gradient to `type` after every
  // micro-batch for which `rounds` is true.
  template <class Rounds>
  Gradients of_rounded_parts(at::ScalarType type, Rounds rounds) const {
    double due = 0;
    for (const double share : expected.shares) due += share;
    // A rank's gradient is divided by the world size only when it is communicated.
    const double undivided = trial.world() / due;
    Gradients sum;
    for (const auto& gradient : expected.gradient) sum.push_back(at::zeros_like(gradient));
    for (int rank = 0; rank < trial.world(); ++rank)
      for (size_t p = 0; p < sum.size(); ++p) {
        at::Tensor part = at::zeros_like(sum[p]);
        for (size_t i = 0; i < expected.shards.size(); ++i) {
          const Shard& shard = expected.shards[i];
          if (shard.replica != rank) continue;
          part = part + shard.gradient[p].to(at::kDouble) * (expected.shares[i] * undivided);
          if (rounds(shard.micro)) part = part.to(type).to(at::kDouble);
        }
        sum[p] = sum[p] + part / undivided;
      }
    return sum;
  }

  // Returns the smallest difference between the reported gradient and three candidates: the mean rounded to `type`,
  // each rank's gradient rounded, or the accumulated gradient rounded between micro-batches.
  double distance_to_rounded(at::ScalarType type) const {
    const int64_t last = trial.scenario.accumulate - 1;
    std::vector<Gradients> candidates = {{}, of_rounded_parts(type, [=](int64_t micro) { return micro == last; })};
    for (const auto& gradient : expected.gradient) candidates[0].push_back(gradient.to(type).to(at::kDouble));
    if (last > 0) candidates.push_back(of_rounded_parts(type, [=](int64_t micro) { return micro < last; }));
    double least = std::numeric_limits<double>::infinity();
    for (const auto& candidate : candidates) {
      double sum = 0;
      for (const size_t p : wrong) sum += relative_error(found[p], candidate[p], 1e-300);
      least = std::min(least, sum);
    }
    return least;
  }

  // Tells by the gradient's values whether float16 or bfloat16 is the likelier dtype of the rounding. The size of the
  // error does not tell, because rounding only a part of the sum to bfloat16 may cause an error as small as float16's.
  std::string float16_or_bfloat16() const {
    const double as_half = distance_to_rounded(at::kHalf), as_brain = distance_to_rounded(at::kBFloat16);
    if (as_half <= as_brain / 2) return "float16";
    return as_brain <= as_half / 2 ? "bfloat16" : "float16 or bfloat16";
  }
};

}  // namespace

std::string rounded_to_narrow_dtype(const Trial& trial, const ExpectedStep& expected, const std::vector<size_t>& wrong,
                                    const std::vector<at::Tensor>& found) {
  double worst = 0;
  for (const size_t p : wrong) worst = std::max(worst, relative_error(found[p], expected.gradient[p], 1e-300));
  const auto& asked_for = trial.bench.strategy.reduced_in;
  const auto possible = [&](at::ScalarType type) {
    return trial.scenario.dtype != type && asked_for != type && worst < 4 * unit_roundoff(type);
  };
  const bool no_half = asked_for == at::kHalf || worst >= 4 * unit_roundoff(at::kHalf);
  std::string type;
  if (possible(at::kFloat))
    type = "float32";
  else if (possible(at::kBFloat16))
    type = no_half ? "bfloat16" : Narrowing{trial, expected, wrong, found}.float16_or_bfloat16();
  else if (possible(at::kHalf))
    type = "float16";
  return type.empty() ? "" : "rounded to " + type + " on its way";
}

}  // namespace dpbench
