#include "harness/conform/scenario/choose_scenarios.h"

#include <algorithm>
#include <bit>

namespace dpbench {
namespace {

// Largest number of micro-batches that scenarios other than `unwatched` take over from the timed case, because the
// oracle computes each micro-batch of each of their steps.
constexpr int64_t most_own_micros = 16;

// Largest number of micro-batches of a heavy model, whose tensors take much memory. In the scenario `unwatched`, the
// timed case's number of micro-batches applies instead, if CaseTraits::own_micros gives one.
constexpr int64_t most_heavy_micros = 2;

// Gives the scenario `unwatched` the timed case's micro-batches. It gets few samples until affordable_shape() chooses
// their number.
void shape_as_timed(Scenario& scenario, const Bench& bench, const CaseTraits& traits) {
  const Distribution& distribution = bench.distribution;
  if (traits.own_micros > 0) scenario.accumulate = traits.own_micros;
  scenario.accumulate = std::clamp<int64_t>(distribution.samples / distribution.world, 1, scenario.accumulate);
  scenario.revealing = traits.small_probe();
  // The last batch of an epoch is short except in two kinds of cases. If a strategy records each batch size (e.g. as a
  // CUDA graph), ranks with different batch sizes would record in different steps. And some models refuse one sample
  // per replica, which a short batch may have.
  scenario.short_batches = !bench.strategy.recorded && !distribution.refuses_one;
  scenario.samples_per_rank = distribution.samples_per_rank;
  if (traits.own_samples > 0) scenario.samples_per_rank = std::min(scenario.samples_per_rank, traits.own_samples);
}

}  // namespace

std::vector<Scenario> choose_scenarios(const Bench& bench, const CaseTraits& traits) {
  std::vector<Scenario> chosen;
  for (auto& scenario : scenarios(bench.distribution, traits.dtype, traits.costly, bench.seed)) {
    if (scenario.huge && bench.strategy.reduced_in != at::kHalf) continue;
    if (traits.large && !scenario.sizes) continue;
    // Cases without costly scenarios, and the checks before timing (CaseTraits::brief), run at most two steps per
    // scenario. Mistakes in later steps are found by the workloads that run the costly scenarios, and by the scenario
    // `unwatched`.
    const bool brief = !traits.costly || (traits.brief && !traits.probe);
    if (brief && !scenario.unwatched) scenario.steps = std::min<int64_t>(scenario.steps, 2);
    // In the checks before timing, a scenario with micro-batches has as many per step as the timed case, but at most
    // `most_own_micros`.
    if (traits.brief && traits.own_micros > 1 && scenario.accumulate > 1)
      scenario.accumulate = std::min(traits.own_micros, most_own_micros);
    if (traits.heavy) scenario.accumulate = std::min(scenario.accumulate, most_heavy_micros);
    // If the learning rate is scheduled, a scenario with the check loss-falls begins at step 0: late in a schedule the
    // rate may be too small for a falling loss.
    if (scenario.learns && is_scheduled(bench.workload.optimizer())) scenario.first = 0;
    // A probe (small test model) is cheap, so all of its steps are checked.
    if (traits.probe) scenario.judged_from = 0;
    // If the loss is a sum, the number of micro-batches becomes a power of two, so that dividing whole numbers by it is
    // exact.
    if (bench.workload.sum_loss())
      scenario.accumulate = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(scenario.accumulate)));
    if (scenario.unwatched) shape_as_timed(scenario, bench, traits);
    // A strategy that records its steps would record anew for each number of micro-batches, so the number stays the
    // same.
    scenario.varies_micros = scenario.varies_micros && !bench.strategy.recorded;
    chosen.push_back(std::move(scenario));
  }
  return chosen;
}

TimedShape affordable_shape(const Scenario& scenario, const CaseTraits& traits, double sample_s, double limit_s) {
  // The batch is chosen so that the smallest allowed number of steps takes the oracle at most this multiple of the time
  // limit.
  constexpr double at_most = 4;
  // A small probe that runs the costly scenarios takes all steps, however slow the machine is, so that mistakes
  // that begin late are found.
  const int64_t least_steps = !traits.small_probe() ? 2 : traits.costly ? scenario.steps : 16;
  const double samples = at_most * limit_s / (sample_s * static_cast<double>(least_steps));
  const int64_t chosen =
      std::max(scenario.samples_per_rank, std::min(traits.own_samples, static_cast<int64_t>(samples)));
  const double steps = limit_s / (sample_s * static_cast<double>(chosen));
  return {chosen, std::clamp(static_cast<int64_t>(steps), least_steps, scenario.steps)};
}

}  // namespace dpbench
