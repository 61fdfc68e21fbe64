#include "strategies/dp/links.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "strategies/parts/shares.h"

namespace dpbench::dp {
namespace {

// Moves buffers between replicas without NCCL: broadcasts by copies, and sums in the order of the replicas.
const ReplicaLink plain_link{[](const std::vector<at::Tensor>& buffers) {
                               for (size_t i = 1; i < buffers.size(); ++i)
                                 buffers[i].copy_(buffers[0], /*non_blocking=*/true);
                             },
                             [](std::vector<at::Tensor>& buffers) {
                               for (size_t i = 1; i < buffers.size(); ++i)
                                 buffers[0].add_(buffers[i].to(buffers[0].device()));
                             }};

// Returns the index of the first replica that has a gradient of this parameter; the number of replicas if none has one.
size_t first_user_of(const Replicas& replicas, size_t parameter) {
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
    if (first_user_of(replicas, i) < replicas.size()) main.gradient_of(i) = main.gradients->views()[i];
}

// If replica 0 has no gradient of a parameter, copies the first one that another replica has; the remaining gradients
// can then be added to it. Returns, for each parameter, the index of the first replica with a gradient.
std::vector<size_t> fill_first_replica(const Replicas& replicas) {
  std::vector<size_t> bases;
  for (size_t i = 0; i < replicas[0]->replica.trainable().size(); ++i) {
    bases.push_back(first_user_of(replicas, i));
    if (bases[i] > 0 && bases[i] < replicas.size())
      replicas[0]->gradient_of(i) = replicas[bases[i]]->gradient_of(i).to(replicas[0]->replica.device());
  }
  return bases;
}

// True if all replicas' gradients of a parameter have the same memory layout, so that threads can each add a range of
// elements.
bool can_be_split(const Replicas& replicas, size_t parameter) {
  const at::Tensor& mine = replicas[0]->gradient_of(parameter);
  return mine.is_non_overlapping_and_dense() && std::all_of(replicas.begin(), replicas.end(), [&](const auto& one) {
           const at::Tensor& gradient = one->gradient_of(parameter);
           return !gradient.defined() || same_layout(mine, gradient);
         });
}

// Sums one thread's share of the elements of all gradients, in the order of the replicas, so that every run gives the
// same bits. If a gradient cannot be split, the thread that owns its first element sums all of it.
void add_share(const Replicas& replicas, const std::vector<size_t>& bases, int part, int parts) {
  const FlatReplica& main = *replicas[0];
  std::vector<int64_t> sizes;
  for (const Parameter& parameter : main.replica.trainable()) sizes.push_back(parameter.tensor.numel());
  for_each_in_share(sizes, part, parts, [&](size_t i, int64_t from, int64_t to) {
    if (bases[i] == replicas.size()) return;
    const bool split = can_be_split(replicas, i);
    if (!split && from > 0) return;
    for (size_t other = bases[i] + 1; other < replicas.size(); ++other) {
      const at::Tensor &mine = main.gradient_of(i), &gradient = replicas[other]->gradient_of(i);
      if (!gradient.defined()) continue;
      if (split)
        range_of(mine, from, to).add_(range_of(gradient, from, to).to(mine.device()));
      else
        at::Tensor(mine).add_(gradient.to(mine.device()));
    }
  });
}

}  // namespace

const ReplicaLink* link_between(const std::vector<at::Device>& devices, bool plain) {
  if (plain) return devices.size() > 1 ? &plain_link : nullptr;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].is_cuda()) return nullptr;
    for (size_t j = 0; j < i; ++j)
      if (devices[i] == devices[j]) return nullptr;
  }
  return devices.size() > 1 ? nccl_replica_link() : nullptr;
}

void broadcast_state(const ReplicaLink& link, const Replicas& replicas, bool with_parameters) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < replicas[0]->flat_state(with_parameters).size(); ++i) {
    std::vector<at::Tensor> buffers;
    for (const auto& one : replicas) buffers.push_back(one->flat_state(with_parameters)[i]);
    link.broadcast(buffers);
  }
}

void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active) {
  if (active == 1) return;
  const at::NoGradGuard no_grad;
  if (link) return sum_by_link(replicas, threads, *link);
  const std::vector<size_t> bases = fill_first_replica(replicas);
  threads.run(active, [&](int i) { add_share(replicas, bases, i, active); });
}

}  // namespace dpbench::dp
