// Mistakes that show in few runs: only with some of the worlds, sample counts, micro-batches, sizes or seeds that
// `dpbench check` draws.
#include <algorithm>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// Returns a strategy that doubles the gradients in runs for which `condition` holds.
std::function<StrategyInfo()> doubling_if(const std::function<bool(Run&)>& condition) {
  return with([condition](Parts& parts) {
    parts.after_reduce = [condition](Run& run) {
      for (auto& gradient : run.gradients)
        if (gradient.defined() && condition(run)) gradient.mul_(2);
    };
  });
}

at::Tensor loss_of_six_samples(Run& run, const Batch& batch, const at::Tensor& output) {
  const int64_t samples = std::min<int64_t>(batch.samples(), 6);
  return run.workload.loss(output.narrow(0, 0, samples), batch.target.narrow(0, 0, samples));
}

// A mistake: halves the last column of large gradient matrices with 8 n + 3 columns.
void halve_a_last_column(Run& run) {
  constexpr int64_t large = 1 << 18;
  for (auto& gradient : run.gradients)
    if (gradient.dim() == 2 && gradient.numel() > large && gradient.size(1) % 8 == 3) gradient.select(1, -1).mul_(0.5);
}

// A mistake: rounds gradients from step 30 on. The checks in float64 cannot detect it.
void round_late_gradients(Run& run) {
  if (run.step < 30 || run.dtype == at::kDouble) return;
  for (auto& gradient : run.gradients) gradient.copy_(gradient.to(at::kBFloat16));
}

// A mistake: rounds gradients from the strategy object's 21st step on, whatever the global number of this step.
void round_gradients_after_20_steps(Parts& parts) {
  parts.after_reduce = [](Run& run) {
    if (run.kept.empty()) run.kept = {at::zeros({}, at::kLong)};  // number of steps that this object has taken
    if (run.kept[0].add_(1).item<int64_t>() <= 20 || run.dtype == at::kDouble) return;
    for (auto& gradient : run.gradients) gradient.copy_(gradient.to(at::kBFloat16));
  };
}

}  // namespace

std::vector<Mutant> rare_mutants() {
  const auto rare = [](const std::string& name, const std::string& killed_by,
                       const std::function<StrategyInfo()>& strategy, int world, uint64_t seeds,
                       const std::string& workload = "probe-mlp-sgd") {
    return Mutant{.name = name,
                  .killed_by = killed_by,
                  .strategy = strategy,
                  .workload = workload,
                  .world = world,
                  .seed = seeds};
  };
  return {
      rare("gradients-doubled-in-a-world-of-6", "gradient-meaning",
           doubling_if([](Run& run) { return run.world == 6; }),
           /*world=*/0, 6),
      rare("samples-beyond-the-sixth-without-weight", "gradient-meaning",
           with([](Parts& parts) { parts.loss = loss_of_six_samples; }), 3, 8),
      rare("gradients-doubled-for-even-seeds", "gradient-meaning",
           doubling_if([](Run& run) { return run.step_seed % 2 == 0; }), 3, 4),
      rare("fifth-micro-batch-forgotten", "accumulation", with([](Parts& parts) {
             parts.micro_scale = [right = parts.micro_scale](Run& run) { return run.micro < 4 ? right(run) : 0; };
           }),
           3, 4),
      rare("seventh-micro-batch-forgotten", "accumulation-replay", with([](Parts& parts) {
             parts.micro_scale = [right = parts.micro_scale](Run& run) { return run.micro < 6 ? right(run) : 0; };
           }),
           3, 4),
      rare("float32-gradients-rounded-to-bfloat16-from-step-30-on", "gradient-later",
           with([](Parts& parts) { parts.after_reduce = round_late_gradients; }), 3, 4, "probe-mlp"),
      rare("float32-gradients-rounded-to-bfloat16-after-20-own-steps", "gradient-later",
           with(round_gradients_after_20_steps), 3, 4, "probe-reused"),
      rare("last-column-of-some-widths-halved", "gradient-replay",
           with([](Parts& parts) { parts.after_reduce = halve_a_last_column; }), 3, 4, "probe-wide"),
      rare("reference-in-drawn-worlds", "", with([](Parts&) {}), /*world=*/0, 3),
  };
}

}  // namespace dpbench::wrong
