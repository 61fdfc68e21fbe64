#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {
namespace {

constexpr const char* op_names[] = {"broadcast",      "allreduce", "reduce", "allgather", "gather", "scatter",
                                    "reduce_scatter", "alltoall",  "send",   "recv",      "barrier"};

ForwardingBackend::Tensors flat(const ForwardingBackend::Lists& lists) {
  ForwardingBackend::Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

const char* name_of(CollectiveOp op) { return op_names[static_cast<size_t>(op)]; }

int64_t ForwardingBackend::Call::bytes() const {
  int64_t sum = 0;
  for (const at::Tensor& tensor : op == CollectiveOp::scatter || op == CollectiveOp::recv ? output : input)
    sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

ForwardingBackend::ForwardingBackend(c10::intrusive_ptr<c10d::Backend> inner)
    : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

ForwardingBackend::WorkPtr ForwardingBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return around({CollectiveOp::broadcast, ReduceKind::UNUSED, tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->broadcast(t, options); },
                 options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return around({CollectiveOp::allreduce, options.reduceOp, tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->allreduce(t, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::allreduce_coalesced(Tensors& tensors,
                                                                  const c10d::AllreduceCoalescedOptions& options) {
  return around({CollectiveOp::allreduce, options.reduceOp, tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->allreduce_coalesced(t, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return around({CollectiveOp::reduce, options.reduceOp, tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->reduce(t, options); },
                 options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::allgather(Lists& output, Tensors& input,
                                                        const c10d::AllgatherOptions& options) {
  return around(
      {CollectiveOp::allgather, ReduceKind::UNUSED, input, flat(output),
       [inner = inner_, o = output, i = input, options]() mutable { return inner->allgather(o, i, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                              const c10d::AllgatherOptions& options) {
  return around(
      {CollectiveOp::allgather,
       ReduceKind::UNUSED,
       {input},
       {output},
       [inner = inner_, o = output, i = input, options]() mutable { return inner->_allgather_base(o, i, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::gather(Lists& output, Tensors& input,
                                                     const c10d::GatherOptions& options) {
  return around({CollectiveOp::gather, ReduceKind::UNUSED, input, flat(output),
                 [inner = inner_, o = output, i = input, options]() mutable { return inner->gather(o, i, options); },
                 options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::scatter(Tensors& output, Lists& input,
                                                      const c10d::ScatterOptions& options) {
  return around({CollectiveOp::scatter, ReduceKind::UNUSED, flat(input), output,
                 [inner = inner_, o = output, i = input, options]() mutable { return inner->scatter(o, i, options); },
                 options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::reduce_scatter(Tensors& output, Lists& input,
                                                             const c10d::ReduceScatterOptions& options) {
  return around(
      {CollectiveOp::reduce_scatter, options.reduceOp, flat(input), output,
       [inner = inner_, o = output, i = input, options]() mutable { return inner->reduce_scatter(o, i, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                   const c10d::ReduceScatterOptions& options) {
  return around({CollectiveOp::reduce_scatter,
                 options.reduceOp,
                 {input},
                 {output},
                 [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->_reduce_scatter_base(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::alltoall(Tensors& output, Tensors& input,
                                                       const c10d::AllToAllOptions& options) {
  return around(
      {CollectiveOp::alltoall, ReduceKind::UNUSED, input, output,
       [inner = inner_, o = output, i = input, options]() mutable { return inner->alltoall(o, i, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                            std::vector<int64_t>& output_sizes,
                                                            std::vector<int64_t>& input_sizes,
                                                            const c10d::AllToAllOptions& options) {
  return around({CollectiveOp::alltoall,
                 ReduceKind::UNUSED,
                 {input},
                 {output},
                 [inner = inner_, o = output, i = input, os = output_sizes, is = input_sizes, options]() mutable {
                   return inner->alltoall_base(o, i, os, is, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::allgather_into_tensor_coalesced(Tensors& output, Tensors& input,
                                                                              const c10d::AllgatherOptions& options) {
  return around({CollectiveOp::allgather, ReduceKind::UNUSED, input, output,
                 [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->allgather_into_tensor_coalesced(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::reduce_scatter_tensor_coalesced(
    Tensors& output, Tensors& input, const c10d::ReduceScatterOptions& options) {
  return around({CollectiveOp::reduce_scatter, options.reduceOp, input, output,
                 [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->reduce_scatter_tensor_coalesced(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::send(Tensors& tensors, int to, int tag) {
  return around({CollectiveOp::send, ReduceKind::UNUSED, tensors, {}, [inner = inner_, t = tensors, to, tag]() mutable {
                   return inner->send(t, to, tag);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::recv(Tensors& tensors, int from, int tag) {
  return around(
      {CollectiveOp::recv, ReduceKind::UNUSED, {}, tensors, [inner = inner_, t = tensors, from, tag]() mutable {
         return inner->recv(t, from, tag);
       }});
}

ForwardingBackend::WorkPtr ForwardingBackend::barrier(const c10d::BarrierOptions& options) {
  return around({CollectiveOp::barrier, ReduceKind::UNUSED, {}, {}, [inner = inner_, options] {
                   return inner->barrier(options);
                 }});
}

c10::intrusive_ptr<c10d::ProcessGroup> wrapped_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                     at::DeviceType device, const Wrap& wrap) {
  const auto type = c10d::ProcessGroup::BackendType::CUSTOM;
  const auto backend = wrap(group->getBackend(device));
  auto result = c10::make_intrusive<c10d::ProcessGroup>(group->getStore(), group->getRank(), group->getSize());
  result->setBackend(at::kCPU, type, backend);
  if (device != at::kCPU) result->setBackend(device, type, backend);
  result->setDefaultBackend(type);
  return result;
}

}  // namespace dpbench
