#include "strategies/comm/base/staged.h"

#include <exception>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "strategies/comm/base/comm_work.h"

namespace dpbench {
namespace {

using StagedType = c10d::OpType;

// Waits for all work on this thread's current stream of the device.
void wait_for(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

void copy_back(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& from, at::Device device) {
  // Writing to the outputs needs no_grad mode, because they may be parameters. The mode is per thread, and this
  // function may run in a thread of the backend.
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < outputs.size(); ++i) {
    at::Tensor output = outputs[i];
    output.copy_(from[i], /*non_blocking=*/true);
  }
  wait_for(device);
}

at::Tensor host_buffer_for(const at::Tensor& tensor) {
  return at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(tensor.is_cuda()).requires_grad(false));
}

std::vector<at::Tensor> copy_to_host(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> host;
  for (const auto& tensor : tensors) host.push_back(host_buffer_for(tensor).copy_(tensor, /*non_blocking=*/true));
  if (!tensors.empty()) wait_for(tensors[0].device());
  return host;
}

// The c10d::Work of a send, a receive or an alltoall_base() that runs on copies in host memory. Its wait() copies
// received data back to the device.
class StagedWork : public c10d::Work {
 public:
  StagedWork(c10::intrusive_ptr<c10d::Work> work, at::Tensor host, std::optional<at::Tensor> receiver)
      : work_(std::move(work)), host_(std::move(host)), receiver_(std::move(receiver)) {}

  bool isCompleted() override { return work_->isCompleted() && !receiver_; }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  void abort() override { work_->abort(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = work_->wait(timeout);
    if (done && receiver_) copy_back({*receiver_}, {host_}, receiver_->device()), receiver_.reset();
    return done;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor host_;
  // The device tensor into which wait() copies the received data from host_; reset after the copy.
  std::optional<at::Tensor> receiver_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> send_through_host(const at::Tensor& tensor, const StartOnHost& start) {
  auto host = copy_to_host({tensor});
  return c10::make_intrusive<StagedWork>(start(host), host[0], std::nullopt);
}

c10::intrusive_ptr<c10d::Work> receive_through_host(const at::Tensor& tensor, const StartOnHost& start) {
  std::vector<at::Tensor> host{host_buffer_for(tensor)};
  return c10::make_intrusive<StagedWork>(start(host), host[0], tensor);
}

c10::intrusive_ptr<c10d::Work> exchange_through_host(const at::Tensor& output, const at::Tensor& input,
                                                     const StartOnHost& start) {
  std::vector<at::Tensor> host{host_buffer_for(output), copy_to_host({input})[0]};
  return c10::make_intrusive<StagedWork>(start(host), host[0], output);
}

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> host, at::Device device)
    : Backend(host->getRank(), host->getSize()), host_(std::move(host)), device_(device) {}

StagedBackend::WorkPtr StagedBackend::copy_back_after(c10d::OpType type, const Tensors& outputs, const Tensors& from,
                                                      const WorkPtr& work) {
  std::vector<at::Device> devices;
  if (!device_.is_cpu()) devices.push_back(device_);
  auto staged = c10::make_intrusive<CommWork>(rank_, type, work->getSequencenumber(), outputs, devices);
  work->getFuture()->addCallback([staged, outputs, from, device = device_](c10::ivalue::Future& done) {
    if (done.hasError()) return staged->fail(done.exception_ptr());
    try {
      copy_back(outputs, from, device);
    } catch (...) {
      return staged->fail(std::current_exception());
    }
    staged->succeed();
  });
  return staged;
}

StagedBackend::WorkPtr StagedBackend::in_place(c10d::OpType type, const Tensors& tensors, const OnHost& start) {
  Tensors host = copy_to_host(tensors), none;
  return copy_back_after(type, tensors, host, start(host, none));
}

StagedBackend::WorkPtr StagedBackend::out_of_place(c10d::OpType type, const Tensors& outputs, const Tensors& inputs,
                                                   const OnHost& start) {
  Tensors from = copy_to_host(inputs), to;
  for (const auto& output : outputs) to.push_back(host_buffer_for(output));
  return copy_back_after(type, outputs, to, start(to, from));
}

StagedBackend::WorkPtr StagedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (!is_staged(tensors.at(0))) return host_->allreduce(tensors, options);
  return in_place(StagedType::ALLREDUCE, tensors,
                  [&](Tensors& host, Tensors&) { return host_->allreduce(host, options); });
}

StagedBackend::WorkPtr StagedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (!is_staged(tensors.at(0))) return host_->broadcast(tensors, options);
  return in_place(StagedType::BROADCAST, tensors,
                  [&](Tensors& host, Tensors&) { return host_->broadcast(host, options); });
}

StagedBackend::WorkPtr StagedBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  if (!is_staged(inputs.at(0))) return host_->allgather(outputs, inputs, options);
  return out_of_place(StagedType::ALLGATHER, outputs.at(0), inputs, [&](Tensors& to, Tensors& from) {
    std::vector<Tensors> lists{to};
    return host_->allgather(lists, from, options);
  });
}

StagedBackend::WorkPtr StagedBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& options) {
  if (!is_staged(input)) return host_->_allgather_base(output, input, options);
  return out_of_place(StagedType::_ALLGATHER_BASE, {output}, {input},
                      [&](Tensors& to, Tensors& from) { return host_->_allgather_base(to[0], from[0], options); });
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  if (!is_staged(outputs.at(0))) return host_->reduce_scatter(outputs, inputs, options);
  return out_of_place(StagedType::REDUCE_SCATTER, outputs, inputs.at(0), [&](Tensors& to, Tensors& from) {
    std::vector<Tensors> lists{from};
    return host_->reduce_scatter(to, lists, options);
  });
}

StagedBackend::WorkPtr StagedBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::ReduceScatterOptions& options) {
  if (!is_staged(input)) return host_->_reduce_scatter_base(output, input, options);
  return out_of_place(StagedType::_REDUCE_SCATTER_BASE, {output}, {input},
                      [&](Tensors& to, Tensors& from) { return host_->_reduce_scatter_base(to[0], from[0], options); });
}

StagedBackend::WorkPtr StagedBackend::allreduce_coalesced(Tensors& tensors,
                                                          const c10d::AllreduceCoalescedOptions& options) {
  if (!is_staged(tensors.at(0))) return host_->allreduce_coalesced(tensors, options);
  return in_place(StagedType::ALLREDUCE_COALESCED, tensors,
                  [&](Tensors& host, Tensors&) { return host_->allreduce_coalesced(host, options); });
}

StagedBackend::WorkPtr StagedBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::AllgatherOptions& options) {
  if (!is_staged(inputs.at(0))) return host_->allgather_into_tensor_coalesced(outputs, inputs, options);
  return out_of_place(StagedType::COALESCED, outputs, inputs, [&](Tensors& to, Tensors& from) {
    return host_->allgather_into_tensor_coalesced(to, from, options);
  });
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::ReduceScatterOptions& options) {
  if (!is_staged(inputs.at(0))) return host_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  return out_of_place(StagedType::COALESCED, outputs, inputs, [&](Tensors& to, Tensors& from) {
    return host_->reduce_scatter_tensor_coalesced(to, from, options);
  });
}

StagedBackend::WorkPtr StagedBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (!is_staged(tensors.at(0))) return host_->reduce(tensors, options);
  return in_place(StagedType::REDUCE, tensors, [&](Tensors& host, Tensors&) { return host_->reduce(host, options); });
}

// Starts a gather over the CPU backend. Only the root has outputs.
StagedBackend::WorkPtr StagedBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& options) {
  if (!is_staged(inputs.at(0))) return host_->gather(outputs, inputs, options);
  return out_of_place(StagedType::GATHER, outputs.empty() ? Tensors() : outputs[0], inputs,
                      [&](Tensors& to, Tensors& from) {
                        std::vector<Tensors> lists(outputs.size(), to);
                        return host_->gather(lists, from, options);
                      });
}

// Starts a scatter over the CPU backend. Only the root has inputs.
StagedBackend::WorkPtr StagedBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& options) {
  if (!is_staged(outputs.at(0))) return host_->scatter(outputs, inputs, options);
  return out_of_place(StagedType::SCATTER, outputs, inputs.empty() ? Tensors() : inputs[0],
                      [&](Tensors& to, Tensors& from) {
                        std::vector<Tensors> lists(inputs.size(), from);
                        return host_->scatter(to, lists, options);
                      });
}

StagedBackend::WorkPtr StagedBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllToAllOptions& options) {
  if (!is_staged(inputs.at(0))) return host_->alltoall(outputs, inputs, options);
  return out_of_place(StagedType::ALLTOALL, outputs, inputs,
                      [&](Tensors& to, Tensors& from) { return host_->alltoall(to, from, options); });
}

StagedBackend::WorkPtr StagedBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_sizes,
                                                    std::vector<int64_t>& input_sizes,
                                                    const c10d::AllToAllOptions& options) {
  if (!is_staged(input)) return host_->alltoall_base(output, input, output_sizes, input_sizes, options);
  return exchange_through_host(output, input, [&](Tensors& host) {
    return host_->alltoall_base(host[0], host[1], output_sizes, input_sizes, options);
  });
}

StagedBackend::WorkPtr StagedBackend::send(Tensors& tensors, int to, int tag) {
  if (!is_staged(tensors.at(0))) return host_->send(tensors, to, tag);
  return send_through_host(tensors[0], [&](Tensors& host) { return host_->send(host, to, tag); });
}

StagedBackend::WorkPtr StagedBackend::recv(Tensors& tensors, int from, int tag) {
  if (!is_staged(tensors.at(0))) return host_->recv(tensors, from, tag);
  return receive_through_host(tensors[0], [&](Tensors& host) { return host_->recv(host, from, tag); });
}

}  // namespace dpbench
