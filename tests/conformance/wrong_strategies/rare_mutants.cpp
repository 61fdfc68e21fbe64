// Mistakes that show in few runs, each with the world, samples, micro-batches, sizes or seed that the short form draws.
#include <algorithm>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// Doubles the gradients in runs for which `condition` holds.
std::function<StrategyInfo()> doubling_if(const std::function<bool(Run&)>& condition) {
  return with([condition](Parts& parts) {
    parts.after_reduce = [condition](Run& run) {
      for (auto& gradient : run.gradients)
        if (gradient.defined() && condition(run)) gradient.mul_(2);
    };
  });
}

at::Tensor loss_of_six_samples(Run& run, const Batch& batch, const at::Tensor& output) {
  const int64_t rows = std::min<int64_t>(batch.rows(), 6);
  return run.workload.loss(output.narrow(0, 0, rows), batch.target.narrow(0, 0, rows));
}

// A mistake: halves the last column of large matrices if the columns before it fill vectors of 8 with a rest of 2.
void halve_a_last_column(Run& run) {
  constexpr int64_t large = 1 << 18;
  for (auto& gradient : run.gradients)
    if (gradient.dim() == 2 && gradient.numel() > large && gradient.size(1) % 8 == 3) gradient.select(1, -1).mul_(0.5);
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
      rare("last-column-of-some-widths-halved", "gradient-replay",
           with([](Parts& parts) { parts.after_reduce = halve_a_last_column; }), 3, 4, "probe-wide"),
      rare("reference-in-drawn-worlds", "", with([](Parts&) {}), /*world=*/0, 3),
  };
}

}  // namespace dpbench::wrong
