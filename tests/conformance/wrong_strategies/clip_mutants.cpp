// Wrong strategies with mistakes in gradient clipping: a norm taken at the wrong time or over the wrong elements, or a
// norm applied wrongly. Also contains correct strategies.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

using Squares = std::function<double(Run&)>;

double squares_of(const at::Tensor& gradient) {
  return gradient.defined() ? gradient.to(at::kDouble).square().sum().item<double>() : 0;
}

double squares_of(const std::vector<at::Tensor>& gradients) {
  return std::accumulate(gradients.begin(), gradients.end(), 0.0,
                         [](double sum, const at::Tensor& gradient) { return sum + squares_of(gradient); });
}

// Returns a strategy that clips the reduced gradient as if squares(run) were the square of its norm.
std::function<StrategyInfo()> clipping_by(const Squares& squares) {
  return with([squares](Parts& parts) {
    parts.clip = [squares](Run& run) {
      if (!run.clip_norm) return;
      const double factor = *run.clip_norm / (std::sqrt(squares(run)) + 1e-6);
      if (factor < 1)
        for (auto& gradient : run.gradients)
          if (gradient.defined()) gradient.mul_(factor);
    };
  });
}

double squares_of_own(Run& run) {
  double sum = 0;
  for (const auto& leaf : run.leaves) sum += squares_of(leaf.grad());
  return sum;
}

// A mistake: sums the squared norm over the ranks, though each rank's reduced gradient is already complete.
double squares_of_all_ranks(Run& run) {
  at::Tensor sum = at::full({1}, squares_of(run.gradients), at::kDouble);
  run.all_reduce(sum);
  return sum.item<double>();
}

double squares_of_all_names(Run& run) {
  double sum = squares_of(run.gradients);
  const auto parameters = run.model->named_parameters();
  for (const auto& item : parameters)
    for (size_t i = 0; i < run.leaves.size(); ++i)
      if (item.value().is_same(run.leaves[i]) && item.key() != run.names[i]) sum += squares_of(run.gradients[i]);
  return sum;
}

void clip_before_reducing(Parts& parts) {
  const auto before = parts.before_reduce;
  const auto clip = parts.clip;
  parts.before_reduce = [=](Run& run) {
    before(run);
    clip(run);
  };
  parts.clip = [](Run&) {};
}

void clip_each_parameter(Run& run) {
  if (!run.clip_norm) return;
  for (auto& gradient : run.gradients)
    if (gradient.defined()) gradient.mul_(std::min(1.0, *run.clip_norm / gradient.norm().item<double>()));
}

void clip_by_value(Run& run) {
  if (!run.clip_norm) return;
  for (auto& gradient : run.gradients)
    if (gradient.defined()) gradient.clamp_(-*run.clip_norm, *run.clip_norm);
}

void clip_always(Run& run) {
  if (!run.clip_norm) return;
  const double size = std::sqrt(squares_of(run.gradients));
  for (auto& gradient : run.gradients) gradient.mul_(*run.clip_norm / (size + 1e-6));
}

}  // namespace

std::vector<Mutant> clip_mutants() {
  return {
      {"clip-missing", "clip", "not clipped", with([](Parts& p) { p.clip = [](Run&) {}; })},
      {"clip-always", "clip", "scaled up", with([](Parts& p) { p.clip = clip_always; })},
      {"clip-before-the-reduction", "clip", "before", with(clip_before_reducing)},
      {"clip-each-parameter", "clip", "own norm", with([](Parts& p) { p.clip = clip_each_parameter; })},
      {"clip-by-value", "clip", "element", with([](Parts& p) { p.clip = clip_by_value; })},
      {"clip-missing-in-float32", "clip-replay", "not clipped", with([](Parts& p) {
         p.clip = [right = p.clip](Run& run) {
           if (run.dtype == at::kDouble) right(run);
         };
       })},
      {"clip-before-the-reduction-in-float32", "clip-replay", "before", with([](Parts& p) {
         Parts wrong = p;
         clip_before_reducing(wrong);
         p.before_reduce = [=, right = p.before_reduce](Run& run) {
           (run.dtype == at::kDouble ? right : wrong.before_reduce)(run);
         };
         p.clip = [right = p.clip](Run& run) {
           if (run.dtype == at::kDouble) right(run);
         };
       })},
      {"clipped-by-the-norm-of-its-own-gradient", "clip", "own gradient", clipping_by(squares_of_own)},
      {"squares-added-over-ranks-that-have-the-same", "clip", "added once", clipping_by(squares_of_all_ranks)},
      {"squares-of-a-tied-parameter-added-twice", "clip", "encoder|2 times", clipping_by(squares_of_all_names),
       "probe-tied"},
      {"clipped-by-the-norm-of-the-sum", "clip", "norm|sum",
       clipping_by([](Run& run) { return squares_of(run.gradients) * run.world * run.world; })},
      {"clipped-by-the-largest-element", "clip", "largest element", clipping_by([](Run& run) {
         double largest = 0;
         for (const auto& gradient : run.gradients) largest = std::max(largest, gradient.abs().max().item<double>());
         return largest * largest;
       })},
      {"squares-added-over-ranks-and-divided", "", "",
       clipping_by([](Run& run) { return squares_of_all_ranks(run) / run.world; })},
      {"squares-added-backwards", "", "", clipping_by([](Run& run) {
         return std::accumulate(run.gradients.rbegin(), run.gradients.rend(), 0.0,
                                [](double sum, const at::Tensor& gradient) { return sum + squares_of(gradient); });
       }),
       "gpt"},
  };
}

}  // namespace dpbench::wrong
