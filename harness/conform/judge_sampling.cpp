#include "harness/conform/judge_sampling.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

constexpr int64_t epochs = 3;

// Why one epoch's shares are not a fair deal; empty if they are.
std::string unfair(const Deal& deal, const std::vector<at::Tensor>& shares) {
  const int64_t each = deal.drop_last ? deal.samples / deal.world : (deal.samples + deal.world - 1) / deal.world;
  std::vector<int64_t> counts(static_cast<size_t>(deal.samples), 0);
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const std::string who = "rank " + std::to_string(rank);
    if (shares[rank].numel() != each)
      return who + " has " + std::to_string(shares[rank].numel()) + " samples, expected " + std::to_string(each);
    const at::Tensor ids = shares[rank].contiguous();
    for (int64_t i = 0; i < each; ++i) {
      const int64_t id = ids.data_ptr<int64_t>()[i];
      if (id < 0 || id >= deal.samples) return who + " has sample " + std::to_string(id) + ", which does not exist";
      ++counts[static_cast<size_t>(id)];
    }
  }
  const int64_t total = each * deal.world, most = deal.drop_last ? 1 : (total + deal.samples - 1) / deal.samples;
  const int64_t missing = std::count(counts.begin(), counts.end(), 0);
  const int64_t may_miss = deal.drop_last ? deal.samples - total : 0;
  const auto often = std::max_element(counts.begin(), counts.end());
  if (*often > most)
    return "sample " + std::to_string(often - counts.begin()) + " is dealt " + std::to_string(*often) + " times";
  if (missing > may_miss)
    return std::to_string(missing) + " samples are not dealt, the first is " +
           std::to_string(std::find(counts.begin(), counts.end(), 0) - counts.begin());
  return "";
}

}  // namespace

void judge_sampling(const Deal& deal, Rows& rows) {
  std::vector<at::Tensor> orders;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<at::Tensor> shares;
    for (int rank = 0; rank < deal.world; ++rank) shares.push_back(deal.ids(epoch, rank));
    const std::string why = unfair(deal, shares);
    rows.judged("data-each-once", "the shares of all ranks in an epoch with all samples", why.empty(),
                why + ", epoch " + std::to_string(epoch), "ranks read the same rows, or rows are lost at the end");
    orders.push_back(at::cat(shares));
    for (int64_t earlier = 0; earlier < epoch; ++earlier)
      rows.judged("epoch-order", "the order of each epoch with that of every other",
                  !orders.back().equal(orders[static_cast<size_t>(earlier)]),
                  "epochs " + std::to_string(earlier) + " and " + std::to_string(epoch) + " have the same order",
                  "the epoch is not passed on to the sampler");
  }
}

}  // namespace dpbench
