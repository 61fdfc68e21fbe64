#include "harness/conform/judges/judge_sampling.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

constexpr int64_t epochs = 4;

// Returns the first error in the assignment of one epoch's samples to ranks; empty if the assignment is correct.
std::string wrong_shares(const Deal& deal, const std::vector<at::Tensor>& shares) {
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
    return "sample " + std::to_string(often - counts.begin()) + " is assigned " + std::to_string(*often) + " times";
  if (missing > may_miss)
    return std::to_string(missing) + " samples are not assigned, the first is " +
           std::to_string(std::find(counts.begin(), counts.end(), 0) - counts.begin());
  return "";
}

std::string sampler_suffix(const Deal& deal) { return deal.sampler.empty() ? "" : " (" + deal.sampler + ")"; }

// Counts the samples that are followed by the same sample in the orders of two epochs: about one if the samples were
// shuffled, nearly all if the order was only rotated.
int64_t same_successors(const at::Tensor& one, const at::Tensor& other, int64_t samples) {
  const auto followers = [samples](const at::Tensor& order) {
    at::Tensor next = at::full({samples}, -1, at::kLong);
    next.index_put_({order.narrow(0, 0, order.numel() - 1)}, order.narrow(0, 1, order.numel() - 1));
    return next;
  };
  const at::Tensor a = followers(one), b = followers(other);
  return a.eq(b).logical_and(a.ge(0)).sum().item<int64_t>();
}

void judge_order(const Deal& deal, const std::vector<at::Tensor>& orders, Rows& rows) {
  const size_t epoch = orders.size() - 1;
  const std::string compared = "the order of each epoch with that of every other" + sampler_suffix(deal);
  for (size_t earlier = 0; earlier < epoch; ++earlier) {
    const auto between = "epochs " + std::to_string(earlier) + " and " + std::to_string(epoch);
    rows.judged("epoch-order", compared, !orders[epoch].equal(orders[earlier]), between + " have the same order",
                "the epoch is not passed on to the sampler");
    const int64_t count = same_successors(orders[earlier], orders[epoch], deal.samples);
    rows.judged("epoch-order", compared, count <= deal.samples / 4,
                "in " + between + " " + std::to_string(count) + " of " + std::to_string(deal.samples) +
                    " samples are followed by the same one",
                "the order is rotated or cut, not reshuffled");
  }
}

// Checks that the samples dropped by drop_last change between epochs; otherwise some samples are never used.
void judge_what_is_dropped(const Deal& deal, const std::vector<at::Tensor>& orders, Rows& rows) {
  at::Tensor seen = at::zeros({deal.samples}, at::kBool);
  for (const auto& order : orders) seen.index_fill_(0, order, true);
  const at::Tensor never = seen.logical_not().nonzero();
  rows.judged(
      "data-each-once", "the shares of all ranks in an epoch with all samples" + sampler_suffix(deal),
      never.numel() == 0,
      [&] {
        return std::to_string(never.numel()) + " samples are dropped in every epoch, the first is " +
               std::to_string(never[0].item<int64_t>());
      },
      "samples are dropped before the shuffle and never trained on");
}

}  // namespace

void judge_sampling(const Deal& deal, Rows& rows) {
  std::vector<at::Tensor> orders;
  bool all_fair = true;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<at::Tensor> shares;
    for (int rank = 0; rank < deal.world; ++rank) shares.push_back(deal.ids(epoch, rank));
    const std::string why = wrong_shares(deal, shares);
    rows.judged("data-each-once", "the shares of all ranks in an epoch with all samples" + sampler_suffix(deal),
                why.empty(), why + ", epoch " + std::to_string(epoch),
                "ranks read the same samples, or samples are lost at the end");
    all_fair = all_fair && why.empty();
    orders.push_back(at::cat(shares));
    if (all_fair) judge_order(deal, orders, rows);
  }
  if (all_fair && deal.drop_last) judge_what_is_dropped(deal, orders, rows);
}

}  // namespace dpbench
