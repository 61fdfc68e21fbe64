#include "strategies/layout/reductions.h"

#include <ATen/ATen.h>

#include "strategies/parts/shard_sums.h"
#include "strategies/parts/unused_parameters.h"
#include "strategies/tensor/exchange.h"

namespace dpbench::layout {
namespace {

// Messages with the gradients of tied parameters have tags from this number upwards, so they cannot be taken for
// activations or other gradients.
constexpr int first_tie_tag = 1 << 24;

// Returns the sum of the tensors `mine` of several ranks. ranks: two or more ranks, including this rank, `here`. Each
// rank receives all tensors and adds them in the order of ranks, so that all ranks get the same bits.
at::Tensor sum_among(const std::vector<int>& ranks, const at::Tensor& mine, const pipeline::Links& links, int here,
                     int tag) {
  std::vector<pipeline::Transfer> sent, all;
  for (const int rank : ranks) {
    if (rank == here) {
      all.push_back({mine, {}});
      continue;
    }
    // Two ranks send each other a message. Gloo starts a message only when its receiver is ready, so both ranks start
    // with the receive. NCCL requires that both ranks start the two messages in the same order, so only the higher rank
    // starts with the receive.
    const bool receives_first = mine.is_cpu() || here > rank;
    if (!receives_first) sent.push_back(links.send_like(mine, rank, tag));
    all.push_back(links.receive_like(mine, rank, tag));
    if (receives_first) sent.push_back(links.send_like(mine, rank, tag));
  }
  at::Tensor sum = all[0].wait() + all[1].wait();
  for (size_t i = 2; i < all.size(); ++i) sum += all[i].wait();
  for (pipeline::Transfer& one : sent) one.wait();
  return sum;
}

std::vector<bool> used_anywhere(const std::vector<fsdp::ShardedParameter>& all, const RankModel& model) {
  std::vector<int32_t> flags;
  for (const fsdp::ShardedParameter& one : all) flags.push_back(one.used ? 1 : 0);
  if (!model.options.sharded->find_unused) return {flags.begin(), flags.end()};
  std::vector<at::Tensor> sum = {at::tensor(flags).to(model.replica.device())};
  for (const Axis* axis : {&model.axes.replicas, &model.axes.shard, &model.axes.ep})
    if (axis->size > 1) axis->group->allreduce(sum)->wait();
  const at::Tensor counts = sum[0].cpu();
  const auto* first = counts.const_data_ptr<int32_t>();
  return std::vector<bool>(first, first + all.size());
}

void require_all_gradients(const RankModel& model) {
  std::vector<std::string> unused;
  for (const Held& one : model.trainable())
    if (!one.stored.grad().defined()) unused.push_back(one.name());
  if (unused.empty()) return;
  const std::string& owner = model.options.name;
  const Axis& axis = model.axes.replicas.size > 1 ? model.axes.replicas : model.axes.ep;
  refuse_unused(
      owner, unused,
      model.units ? ". Use --param " + owner + ".find_unused=on." : ", which the axis " + axis.name + " needs");
}

}  // namespace

void take_gradients(RankModel& model) {
  std::vector<fsdp::ShardedParameter> all = model.units->parameters();
  std::erase_if(all, [](const fsdp::ShardedParameter& one) { return !one.trained; });
  const std::vector<bool> used = used_anywhere(all, model);
  for (size_t i = 0; i < all.size(); ++i)
    if (used[i]) all[i].rows.mutable_grad() = all[i].gradient;
}

void sum_partial(const RankModel& model) {
  sum_over(model.axes.tp, gradients_of(model.own_if([&](const Held& one) { return model.is_partial(one); })));
}

void sum_tokens(const RankModel& model) { sum_over(model.axes.cp, gradients_of(model.own)); }

void sum_tied(const RankModel& model, const Passes& passes) {
  for (const Held& one : model.trainable()) {
    const std::vector<int> ranks = model.ranks_of(*one.placed);
    if (ranks.size() < 2) continue;
    const int tag = first_tie_tag + static_cast<int>(one.placed - model.parameters.data());
    const at::Tensor gradient = one.stored.grad();
    // The tensor that ranks exchange has one more element than the gradient: 1 if this rank used the parameter, else 0.
    const at::Tensor mine = at::cat({(gradient.defined() ? gradient : at::zeros_like(one.stored)).reshape({-1}),
                                     at::full({1}, gradient.defined() ? 1 : 0, one.stored.options())});
    const at::Tensor sum =
        passes.named([&] { return "sum of the gradient of " + one.name(); },
                     [&] { return sum_among(ranks, mine, passes.links(), model.axes.pp.rank, tag); });
    const bool used = sum[-1].item<double>() != 0;
    one.stored.mutable_grad() =
        used ? sum.narrow(0, 0, one.stored.numel()).view(one.stored.sizes()).clone() : at::Tensor();
  }
}

void average_over_replicas(const RankModel& model) {
  const Axis& replicas = model.axes.replicas;
  const bool unused_allowed = model.units && model.options.sharded->find_unused;
  if (!unused_allowed && (model.units || replicas.size > 1 || model.axes.ep.size > 1)) require_all_gradients(model);
  if (!model.units) sum_over(replicas, gradients_of(model.own), replicas.size);
}

// The samples of all ranks of ep already contribute to the gradients of experts. So these gradients are not summed,
// only divided by the number of ranks.
void average_over_experts(const RankModel& model) {
  const Axis& ep = model.axes.ep;
  if (ep.size == 1) return;
  sum_over(ep, gradients_of(model.own_if([&](const Held& one) { return !model.is_expert(one); })), ep.size);
  for (const at::Tensor& gradient : gradients_of(model.own_if([&](const Held& one) { return model.is_expert(one); })))
    gradient.div_(ep.size);
}

void verify(const RankModel& model) {
  const Axis& tp = model.axes.tp;
  if (tp.size == 1) return;
  for (const Held& one : model.own)
    if (!model.is_cut(one) && one.stored.grad().defined())
      tensor::require_equal(one.stored.grad(), tp, model.options.name + ".verify: the gradient of " + one.name());
}

// Clips the gradients. The squared norm is summed over the ranks of shard, pp, tp and ep. If several of these ranks
// have the same element of a gradient, only one of them counts it.
void clip(const RankModel& model, double limit) {
  std::vector<at::Tensor> counted, copies;
  for (const Held& one : model.own)
    if (one.stored.grad().defined()) (model.counts(one) ? counted : copies).push_back(one.stored.grad());
  const Axes& axes = model.axes;
  clip_parts(counted, limit, model.replica.device(),
             {axes.shard.group.get(), axes.pp.group.get(), axes.tp.group.get(), axes.ep.group.get()}, copies);
}

}  // namespace dpbench::layout
