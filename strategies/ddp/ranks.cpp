#include "strategies/ddp/ranks.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>

namespace dpbench::ddp {

std::vector<int64_t> terms_of_ranks(c10d::ProcessGroup& group, const Workload& workload, std::span<const Batch> micro,
                                    at::Device device) {
  std::vector<int64_t> terms(static_cast<size_t>(group.getSize()), 0);
  for (const Batch& batch : micro) terms[static_cast<size_t>(group.getRank())] += workload.loss_terms(batch);
  const at::Tensor mine = at::tensor(terms, at::kLong);
  std::vector<at::Tensor> all = {mine.to(device)};
  group.allreduce(all)->wait();
  const at::Tensor here = all[0].cpu();
  std::copy_n(here.const_data_ptr<int64_t>(), terms.size(), terms.begin());
  return terms;
}

int64_t total(const std::vector<int64_t>& terms) { return std::accumulate(terms.begin(), terms.end(), int64_t{0}); }

int64_t active_ranks(const std::vector<int64_t>& terms) {
  return std::count_if(terms.begin(), terms.end(), [](int64_t count) { return count > 0; });
}

int first_active(const std::vector<int64_t>& terms) {
  const auto found = std::find_if(terms.begin(), terms.end(), [](int64_t count) { return count > 0; });
  return found == terms.end() ? 0 : static_cast<int>(found - terms.begin());
}

}  // namespace dpbench::ddp
