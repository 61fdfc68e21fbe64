#include "harness/conform/forwarding_backend.h"

#include "strategies/comm/backend.h"

namespace dpbench {
namespace {

ForwardingBackend::Tensors flat(const ForwardingBackend::Lists& lists) {
  ForwardingBackend::Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

ForwardingBackend::ForwardingBackend(c10::intrusive_ptr<c10d::Backend> inner)
    : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

ForwardingBackend::WorkPtr ForwardingBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return around({"broadcast", "", tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->broadcast(t, options); },
                 options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return around({"allreduce", reduction_name(options.reduceOp), tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->allreduce(t, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::allreduce_coalesced(Tensors& tensors,
                                                                  const c10d::AllreduceCoalescedOptions& options) {
  return around({"allreduce", reduction_name(options.reduceOp), tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->allreduce_coalesced(t, options); }});
}

ForwardingBackend::WorkPtr ForwardingBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return around({"reduce", reduction_name(options.reduceOp), tensors, tensors,
                 [inner = inner_, t = tensors, options]() mutable { return inner->reduce(t, options); },
                 options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::allgather(Lists& output, Tensors& input,
                                                        const c10d::AllgatherOptions& options) {
  return around({"allgather", "", input, flat(output), [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->allgather(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                              const c10d::AllgatherOptions& options) {
  return around({"allgather", "", {input}, {output}, [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->_allgather_base(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::gather(Lists& output, Tensors& input,
                                                     const c10d::GatherOptions& options) {
  return around({"gather", "", input, flat(output), [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->gather(o, i, options);
                 }, options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::scatter(Tensors& output, Lists& input,
                                                      const c10d::ScatterOptions& options) {
  return around({"scatter", "", flat(input), output, [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->scatter(o, i, options);
                 }, options.rootRank});
}

ForwardingBackend::WorkPtr ForwardingBackend::reduce_scatter(Tensors& output, Lists& input,
                                                             const c10d::ReduceScatterOptions& options) {
  return around({"reduce_scatter", reduction_name(options.reduceOp), flat(input), output,
                 [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->reduce_scatter(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                   const c10d::ReduceScatterOptions& options) {
  return around({"reduce_scatter", reduction_name(options.reduceOp), {input}, {output},
                 [inner = inner_, o = output, i = input, options]() mutable {
                   return inner->_reduce_scatter_base(o, i, options);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::send(Tensors& tensors, int to, int tag) {
  return around({"send", "", tensors, {}, [inner = inner_, t = tensors, to, tag]() mutable {
                   return inner->send(t, to, tag);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::recv(Tensors& tensors, int from, int tag) {
  return around({"recv", "", {}, tensors, [inner = inner_, t = tensors, from, tag]() mutable {
                   return inner->recv(t, from, tag);
                 }});
}

ForwardingBackend::WorkPtr ForwardingBackend::barrier(const c10d::BarrierOptions& options) {
  return around({"barrier", "", {}, {}, [inner = inner_, options] { return inner->barrier(options); }});
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
