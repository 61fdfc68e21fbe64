#include "strategies/dp/sum_gradients.h"

#include <ATen/ATen.h>

#include "strategies/parts.h"

namespace dpbench::dp {
namespace {

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

// Adds elements from .. to - 1 of `other`, in the order they have in memory, to those of `mine`.
void add_range(const at::Tensor& mine, const at::Tensor& other, int64_t from, int64_t to) {
  if (mine.strides() != other.strides() || !mine.is_non_overlapping_and_dense()) {
    if (from == 0) mine.add_(other.to(mine.device()));
    return;
  }
  const auto range = [&](const at::Tensor& tensor) {
    return tensor.as_strided({to - from}, {1}, tensor.storage_offset() + from);
  };
  range(mine).add_(range(other).to(mine.device()));
}

// Every replica's thread sums an equal part of all elements, in replica order: the same bits in every run.
void add_piece(const Replicas& replicas, const std::vector<size_t>& bases, int part, int parts) {
  const FlatReplica& main = *replicas[0];
  std::vector<int64_t> sizes;
  for (const Parameter& parameter : main.replica.trainable()) sizes.push_back(parameter.tensor.numel());
  each_in_share(sizes, part, parts, [&](size_t i, int64_t from, int64_t to) {
    for (size_t other = bases[i] + 1; other < replicas.size(); ++other)
      if (const at::Tensor& gradient = replicas[other]->gradient_of(i); gradient.defined())
        add_range(main.gradient_of(i), gradient, from, to);
  });
}

}  // namespace

void sum_gradients(const Replicas& replicas, ReplicaThreads& threads, const ReplicaLink* link, int active) {
  if (active == 1) return;
  const at::NoGradGuard no_grad;
  if (link) return sum_by_link(replicas, threads, *link);
  const std::vector<size_t> bases = first_with_gradient(replicas);
  threads.run(active, [&](int i) { add_piece(replicas, bases, i, active); });
}

}  // namespace dpbench::dp
