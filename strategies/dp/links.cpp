#include "strategies/dp/links.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "strategies/parts/shares.h"
#include "workloads/base/error.h"

namespace dpbench::dp {
namespace {

// The same two operations by plain copies and sums, in replica order.
const ReplicaLink plain_link{[](const std::vector<at::Tensor>& buffers) {
                               for (size_t i = 1; i < buffers.size(); ++i)
                                 buffers[i].copy_(buffers[0], /*non_blocking=*/true);
                             },
                             [](std::vector<at::Tensor>& buffers) {
                               for (size_t i = 1; i < buffers.size(); ++i)
                                 buffers[0].add_(buffers[i].to(buffers[0].device()));
                             }};

// The first replica that has a gradient of this parameter; their number if none has.
size_t used_by(const Replicas& replicas, size_t parameter) {
  size_t replica = 0;
  while (replica < replicas.size() && !replicas[replica]->gradient_of(parameter).defined()) ++replica;
  return replica;
}

void sum_by_link(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink& link) {
  threads.run(static_cast<int>(replicas.size()), [&](int i) { replicas[static_cast<size_t>(i)]->pack_gradients(); });
  FlatReplica& main = *replicas[0];
  for (size_t i = 0; i < main.gradients->buffers().size(); ++i) {
    std::vector<at::Tensor> buffers;
    for (const auto& one : replicas) buffers.push_back(one->gradients->buffers()[i]);
    link.reduce(buffers);
  }
  for (size_t i = 0; i < main.replica.trainable().size(); ++i)
    if (used_by(replicas, i) < replicas.size()) main.gradient_of(i) = main.gradients->views()[i];
}

// Gives replica 0 the gradients that only others have, to add the rest to.
std::vector<size_t> first_with_gradient(const Replicas& replicas) {
  std::vector<size_t> bases;
  for (size_t i = 0; i < replicas[0]->replica.trainable().size(); ++i) {
    bases.push_back(used_by(replicas, i));
    if (bases[i] > 0 && bases[i] < replicas.size())
      replicas[0]->gradient_of(i) = replicas[bases[i]]->gradient_of(i).to(replicas[0]->replica.device());
  }
  return bases;
}

// Whether all replicas' gradients of a parameter lie alike, so that each share can be added by itself.
bool can_be_shared(const Replicas& replicas, size_t parameter) {
  const at::Tensor& mine = replicas[0]->gradient_of(parameter);
  return mine.is_non_overlapping_and_dense() && std::all_of(replicas.begin(), replicas.end(), [&](const auto& one) {
           const at::Tensor& gradient = one->gradient_of(parameter);
           return !gradient.defined() || lie_alike(mine, gradient);
         });
}

// Every replica's thread sums an equal part of all elements, in replica order: the same bits in every run. What cannot
// be shared is summed by whoever has its first element.
void add_piece(const Replicas& replicas, const std::vector<size_t>& bases, int part, int parts) {
  const FlatReplica& main = *replicas[0];
  std::vector<int64_t> sizes;
  for (const Parameter& parameter : main.replica.trainable()) sizes.push_back(parameter.tensor.numel());
  each_in_share(sizes, part, parts, [&](size_t i, int64_t from, int64_t to) {
    if (bases[i] == replicas.size()) return;
    const bool shared = can_be_shared(replicas, i);
    if (!shared && from > 0) return;
    for (size_t other = bases[i] + 1; other < replicas.size(); ++other) {
      const at::Tensor &mine = main.gradient_of(i), &gradient = replicas[other]->gradient_of(i);
      if (!gradient.defined()) continue;
      if (shared)
        range_of(mine, from, to).add_(range_of(gradient, from, to).to(mine.device()));
      else
        at::Tensor(mine).add_(gradient.to(mine.device()));
    }
  });
}

}  // namespace

// NCCL wants a device for each replica; without it, or for virtual devices, replicas copy and add for themselves unless
// told otherwise.
const ReplicaLink* link_between(const std::vector<at::Device>& devices, const std::string& asked) {
  if (asked == "plain") return devices.size() > 1 ? &plain_link : nullptr;
  if (asked != "auto") throw UsageError("dp.link=" + asked + " is none of: auto, plain");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].is_cuda()) return nullptr;
    for (size_t j = 0; j < i; ++j)
      if (devices[i] == devices[j]) return nullptr;
  }
  return devices.size() > 1 ? nccl_replica_link() : nullptr;
}

void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < replicas[0]->state_in_pieces(with_parameters).size(); ++i) {
    std::vector<at::Tensor> pieces;
    for (const auto& one : replicas) pieces.push_back(one->state_in_pieces(with_parameters)[i]);
    link.broadcast(pieces);
  }
}

void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active) {
  if (active == 1) return;
  const at::NoGradGuard no_grad;
  if (link) return sum_by_link(replicas, threads, *link);
  const std::vector<size_t> bases = first_with_gradient(replicas);
  threads.run(active, [&](int i) { add_piece(replicas, bases, i, active); });
}

}  // namespace dpbench::dp
