#include "strategies/api/parts/block_runs.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <ATen/ATen.h>

#include "strategies/parts/flop_count.h"

namespace dpbench {
namespace {

// Returns true if some of at most 256 samples, taken at equal distances and each as a batch of its own, have inputs of
// different sizes.
bool samples_differ_in_size(const Workload& workload) {
  const int64_t samples = workload.samples(), compared = std::min<int64_t>(samples, 256);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < compared; ++i) {
    const at::Tensor id = at::full({1}, i * samples / compared, at::kLong);
    const std::vector<int64_t> sizes = workload.batch(id).input.sizes().vec();
    if (i == 0) first = sizes;
    if (sizes != first) return true;
  }
  return false;
}

}  // namespace

std::vector<BlockRun> runs_of_blocks(const Replica& replica, const Workload& workload) {
  const at::NoGradGuard no_grad;
  const Batch sample = replica.to_device(workload.batch(at::zeros({1}, at::kLong)));
  const std::shared_ptr<Model>& model = replica.shared_model();
  // Evaluation mode, because a forward pass in training mode would change BatchNorm's running statistics.
  model->eval();
  std::vector<BlockRun> all;
  at::Tensor x = sample.input;
  for (size_t block = 0; block < model->blocks().size(); ++block) {
    const FlopCount count(FlopCount::Of::this_thread);
    x = replica.forward_span(block, block + 1, x, /*step=*/0, sample.ids);
    all.push_back({static_cast<double>(count.flop()), at::empty(x.sizes(), x.options().device(at::kMeta))});
  }
  model->train();
  return all;
}

std::function<const std::vector<BlockRun>&()> runs_at_first_call(const Workload& workload, at::ScalarType dtype,
                                                                 at::Device device) {
  return [=, &workload, runs = std::make_shared<std::optional<std::vector<BlockRun>>>()]() -> const auto& {
    if (!*runs && samples_differ_in_size(workload)) runs->emplace();
    if (!*runs) *runs = runs_of_blocks(Replica(workload, device, dtype, 0, 0), workload);
    return **runs;
  };
}

}  // namespace dpbench
