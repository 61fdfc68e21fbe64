// Tests Votes, which detects a rounding to bfloat16 that is too small to show in a single element: each row of a
// model's parameters votes on whether its elements have this error. Gradients and their float32 errors are random
// numbers.
#include "harness/conform/judges/votes.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace dpbench {
namespace {

constexpr int64_t rows = 96, columns = 60, steps = 4, ranks = 3;
constexpr double float32_roundoff = 0x1p-24;

at::Tensor in_bfloat16(const at::Tensor& tensor) { return tensor.to(at::kBFloat16).to(tensor.scalar_type()); }

using Gradients = std::vector<at::Tensor>;  // gradient of one step on each rank
// Trains float32 parameters with the gradients of each step. Returns the parameters after the last step.
using Training =
    std::function<at::Tensor(const at::Tensor& start, const std::vector<Gradients>& gradients, double rate)>;

at::Tensor mean(const Gradients& gradients) { return at::stack(gradients).mean(0); }

Training of_update(const std::function<at::Tensor(const Gradients& gradients, double rate)>& update) {
  return [=](const at::Tensor& start, const std::vector<Gradients>& gradients, double rate) {
    at::Tensor now = start;
    for (const Gradients& one : gradients) now = now + update(one, rate);
    return now;
  };
}

const Training right = of_update([](const Gradients& gradients, double rate) { return -rate * mean(gradients); });
const Training rounds_gradients =
    of_update([](const Gradients& gradients, double rate) { return -rate * in_bfloat16(mean(gradients)); });
const Training rounds_updates =
    of_update([](const Gradients& gradients, double rate) { return in_bfloat16(-rate * mean(gradients)); });
const Training rounds_own_gradients = of_update([](const Gradients& gradients, double rate) {
  Gradients rounded;
  for (const at::Tensor& gradient : gradients) rounded.push_back(in_bfloat16(gradient));
  return -rate * mean(rounded);
});

// Trains with a float64 copy of the parameters. Returns it rounded to float32, as the harness sees the parameters.
at::Tensor with_master_copy(const at::Tensor& start, const std::vector<Gradients>& gradients, double rate) {
  const at::Tensor ulp = start.abs() * float32_roundoff, hidden = (at::rand_like(ulp) - 0.5) * ulp;
  at::Tensor now = start.to(at::kDouble) + hidden;
  for (const Gradients& one : gradients) now = now - rate * mean(one).to(at::kDouble);
  return now.to(at::kFloat);
}

struct Model {
  uint64_t seed = 1;
  double rate = 0.1;
  double step = 100;  // size of an update, in units of the roundoff of a parameter
  // Share of the rows that have a large error in a rank's gradient of a step. In a model, rounding causes one if it
  // moves an activation across zero.
  double flips = 0;
  bool repeats = false;  // if true, all elements of a row have the same gradient
};

// Trains a model by the function `found`. The rows of its parameters then vote on whether `found` makes the same
// mistake as the function `suspected`. Returns the majority for the mistake, in units of the majority that counts as a
// detection.
double votes(const Model& model, const Training& found, const Training& suspected) {
  at::manual_seed(model.seed);
  const at::Tensor start = at::randn({rows, columns}, at::kDouble).mul(0.05).to(at::kFloat);
  std::vector<Gradients> exact(steps), computed(steps);
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const at::Tensor drawn = at::randn({rows, model.repeats ? 1 : columns}, at::kDouble).expand({rows, columns}),
                       gradient = drawn * (0.05 * float32_roundoff * model.step / model.rate);
      const at::Tensor of_row = at::rand({rows, 1}, at::kDouble).lt(model.flips) * at::randn({rows, 1}, at::kDouble);
      const at::Tensor error = at::randn_like(gradient) * (4 * float32_roundoff) + of_row * 0.1;
      exact[static_cast<size_t>(step)].push_back(gradient);
      computed[static_cast<size_t>(step)].push_back((gradient * (1 + error)).to(at::kFloat));
    }
  const at::Tensor wide = start.to(at::kDouble), due = right(wide, exact, model.rate);
  at::Tensor stepwise = start;
  for (const Gradients& one : exact) stepwise = (stepwise.to(at::kDouble) - model.rate * mean(one)).to(at::kFloat);
  const at::Tensor change = suspected(wide, exact, model.rate) - due;
  const double pass = 128 * float32_roundoff * (due - wide).abs().max().item<double>();
  const at::Tensor deviation = (due.abs() * (float32_roundoff * std::sqrt(steps))).square().add(pass * pass).sqrt();
  Votes votes;
  votes.add(found(start, computed, model.rate), due, stepwise, change, deviation, rows);
  return votes.error();
}

const std::vector<std::pair<std::string, Training>> mistakes = {
    {"gradients", rounds_gradients}, {"own gradients", rounds_own_gradients}, {"updates", rounds_updates}};
constexpr double rates[] = {1e-3, 0.1, 0x1p-7};  // learning rates; multiplying by 2^-7 does not round

TEST(RoundingDiagnosisByVotesOfRows, DetectsRoundingToBfloat16BelowTheRoundingErrorOfTheParameters) {
  for (const auto& [name, mistake] : mistakes)
    for (const double rate : rates)
      for (const double step : {50, 500, 50000})
        // no large errors with small steps: they would hide the mistake
        for (const double flips : {0.0, step > 50 ? 0.01 : 0.0})
          EXPECT_GT(votes({.rate = rate, .step = step, .flips = flips}, mistake, mistake), 1)
              << name << ", rate " << rate << ", step " << step << ", flips " << flips;
}

TEST(RoundingDiagnosisByVotesOfRows, DetectsNoMistakeInCorrectStrategies) {
  const std::vector<std::pair<std::string, Training>> strategies = {{"right", right},
                                                                    {"master copy", with_master_copy}};
  for (const auto& [name, strategy] : strategies)
    for (const auto& [suspected, mistake] : mistakes)
      for (const double rate : rates)
        for (const double step : {1, 50, 500, 50000})
          for (const double flips : {0.0, 0.1})
            for (const bool repeats : {false, true})
              for (uint64_t seed = 0; seed < 2; ++seed)
                EXPECT_LT(std::abs(votes({seed, rate, step, flips, repeats}, strategy, mistake)), 0.8)
                    << name << ", " << suspected << ", rate " << rate << ", step " << step << ", flips " << flips
                    << ", repeats " << repeats << ", seed " << seed;
}

TEST(RoundingDiagnosisByVotesOfRows, DetectsNothingIfTheStepsAreTooSmallToShowTheMistake) {
  EXPECT_EQ(votes({.step = 0.1}, rounds_gradients, rounds_gradients), 0);
}

TEST(RoundingDiagnosisByVotesOfRows, DetectsNoMistakeIfTheModelHasTooFewRowsThoughAllVoteForIt) {
  const at::Tensor none = at::zeros({60, 10}, at::kDouble), change = at::ones_like(none);
  const auto error = [&](int64_t few) {
    Votes votes;
    votes.add(change.narrow(0, 0, few), none.narrow(0, 0, few), none.narrow(0, 0, few), change.narrow(0, 0, few),
              change.narrow(0, 0, few), few);
    return votes.error();
  };
  EXPECT_LT(error(60), 1);
  EXPECT_GT(error(10), 0);
}

}  // namespace
}  // namespace dpbench
