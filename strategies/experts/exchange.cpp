#include "strategies/experts/exchange.h"

#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/activation.h"
#include "strategies/parts/compat.h"

namespace dpbench::experts {

Exchange::Exchange(const Axis& axis, std::string owner, at::Device device, Phases* phases)
    : axis_(axis), owner_(std::move(owner)), device_(device), phases_(phases) {}

void Exchange::begin_block(const std::string& name) const {
  block_ = name;
  name_block(name);
}

Around Exchange::around(const std::string& operation) const {
  return timed(phases_, owner_ + ": " + operation + " in " + block_);
}

std::vector<std::vector<int64_t>> Exchange::counts(const std::vector<int64_t>& mine) const {
  const auto experts = static_cast<int64_t>(mine.size());
  const at::Tensor found = around("exchange of the numbers of tokens")([&] {
    at::Tensor own = at::tensor(mine, at::kLong).to(device_);
    at::Tensor all = at::empty({axis_.size * experts}, own.options());
    allgather_flat(*axis_.group, all, own);
    return all.cpu();
  });
  const auto* first = found.const_data_ptr<int64_t>();
  std::vector<std::vector<int64_t>> by_rank;
  for (int rank = 0; rank < axis_.size; ++rank, first += experts) by_rank.emplace_back(first, first + experts);
  return by_rank;
}

at::Tensor Exchange::exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                              const std::vector<int64_t>& received) const {
  return rows_to_ranks(rows, axis_, sent, received, around("exchange of tokens"));
}

}  // namespace dpbench::experts
