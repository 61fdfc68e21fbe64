#include "strategies/ddp/loss_terms.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>

namespace dpbench::ddp {

void LossTerms::count(std::span<const Batch> micro, at::Device device) {
  terms_.assign(static_cast<size_t>(group_.getSize()), 0);
  for (const Batch& batch : micro) terms_[static_cast<size_t>(group_.getRank())] += workload_.loss_terms(batch);
  const at::Tensor mine = at::tensor(terms_, at::kLong);
  std::vector<at::Tensor> all = {mine.to(device)};
  group_.allreduce(all)->wait();
  const at::Tensor here = all[0].cpu();
  std::copy_n(here.const_data_ptr<int64_t>(), terms_.size(), terms_.begin());
}

int64_t LossTerms::total() const { return std::accumulate(terms_.begin(), terms_.end(), int64_t{0}); }

bool LossTerms::none() const { return total() == 0; }

int LossTerms::first_active() const {
  const auto found = std::find_if(terms_.begin(), terms_.end(), [](int64_t count) { return count > 0; });
  return found == terms_.end() ? 0 : static_cast<int>(found - terms_.begin());
}

double LossTerms::weight(const Batch& batch, size_t micros) const {
  const auto world = static_cast<double>(group_.getSize());
  if (options_.divide_by_active) {
    const auto active = std::count_if(terms_.begin(), terms_.end(), [](int64_t count) { return count > 0; });
    return world / static_cast<double>(active);
  }
  if (!options_.global_mean) return 1;
  if (workload_.sum_loss()) return world;
  const auto terms = static_cast<double>(workload_.loss_terms(batch));
  return terms * static_cast<double>(micros) * world / static_cast<double>(total());
}

}  // namespace dpbench::ddp
