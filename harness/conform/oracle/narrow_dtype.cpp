#include "harness/conform/oracle/narrow_dtype.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"

namespace dpbench {
namespace {

using Gradients = std::vector<at::Tensor>;

// Returns the dtype of gradients. It is float32 under autocast, which computes in bfloat16 but keeps parameters and
// their gradients in float32.
at::ScalarType dtype_of_gradients(const Trial& trial) {
  return trial.scenario.dtype == at::kBFloat16 ? at::kFloat : trial.scenario.dtype;
}

struct Narrowing {
  const Trial& trial;
  const ExpectedStep& expected;
  const std::vector<size_t>& wrong;
  const Gradients& found;

  int64_t micros() const {
    int64_t most = 0;
    for (const Shard& shard : expected.shards) most = std::max(most, shard.micro + 1);
    return most;
  }

  // Returns the sum of the ranks' accumulated gradients. Each rank rounds its gradient to `type` after every
  // micro-batch for which `rounds` is true.
  template <class Rounds>
  Gradients of_rounded_parts(at::ScalarType type, Rounds rounds) const {
    double due = 0;
    for (const double share : expected.shares) due += share;
    // Rounding precedes the division by the world size, because a rank's gradient is divided only when it is
    // communicated.
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

  // True if rounding to `type` explains the reported gradient: rounding of the mean, of each rank's gradient, or of the
  // gradient accumulated between micro-batches.
  bool equals_rounded(at::ScalarType type) const {
    const int64_t last = micros() - 1;
    std::vector<Gradients> candidates = {{}, of_rounded_parts(type, [=](int64_t micro) { return micro == last; })};
    for (const auto& gradient : expected.gradient) candidates[0].push_back(gradient.to(type).to(at::kDouble));
    if (last > 0) candidates.push_back(of_rounded_parts(type, [=](int64_t micro) { return micro < last; }));
    return std::any_of(candidates.begin(), candidates.end(), [&](const Gradients& candidate) {
      double left = 0, all = 0;
      for (const size_t p : wrong) {
        left += (found[p] - candidate[p]).square().sum().item<double>();
        all += (found[p] - expected.gradient[p]).square().sum().item<double>();
      }
      return left < 0.01 * all;
    });
  }

  // True if nearly all wrong elements are representable in `type`, after multiplying by a number of ranks or
  // micro-batches by which they may have been divided. This detects sums that were rounded several times, which
  // equals_rounded() cannot reproduce.
  bool is_representable_in(at::ScalarType type) const {
    const double u = unit_roundoff(dtype_of_gradients(trial)), world = trial.world(),
                 micro = static_cast<double>(micros());
    for (const double factor : {1.0, world, micro, world * micro}) {
      double numbers = 0, all = 0;
      for (const size_t p : wrong) {
        const at::Tensor& due = expected.gradient[p];
        const at::Tensor off = (found[p] - due).abs().gt(due.abs() * (4 * u)).logical_and(found[p].ne(0));
        const at::Tensor whole = found[p].masked_select(off) * factor;
        numbers += (whole.to(type).to(at::kDouble) - whole).abs().le(whole.abs() * (4 * u)).sum().item<double>();
        all += static_cast<double>(whole.numel());
      }
      if (all > 0 && numbers >= 0.9 * all) return true;
    }
    return false;
  }
};

}  // namespace

std::string rounded_to_narrow_dtype(const Trial& trial, const ExpectedStep& expected, const std::vector<size_t>& wrong,
                                    const std::vector<at::Tensor>& found) {
  double worst = 0;
  for (const size_t p : wrong) worst = std::max(worst, relative_error(found[p], expected.gradient[p], 1e-300));
  const auto& asked_for = trial.bench.strategy.reduced_in;
  const auto may_have_rounded_to = [&](at::ScalarType type) {
    return dtype_of_gradients(trial) != type && asked_for != type && worst < 4 * unit_roundoff(type);
  };
  // The narrowest type is tried first: a value representable in bfloat16 is usually representable in float16 too, and
  // always in float32.
  for (const auto& [type, name] :
       {std::pair(at::kBFloat16, "bfloat16"), {at::kHalf, "float16"}, {at::kFloat, "float32"}}) {
    const Narrowing narrowing{trial, expected, wrong, found};
    if (may_have_rounded_to(type) && (narrowing.equals_rounded(type) || narrowing.is_representable_in(type)))
      return std::string("rounded to ") + name + " on its way";
  }
  return "";
}

}  // namespace dpbench
