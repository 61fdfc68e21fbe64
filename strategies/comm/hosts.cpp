#include "strategies/comm/hosts.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <c10/core/GradMode.h>

namespace dpbench {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

// Each leader says how many ranks it leads; the ranks of a host follow each other.
std::vector<Host> find_hosts(const BackendSetup& setup) {
  const auto key = [](int leader) { return c10::str("leader-", leader); };
  if (setup.local_rank == 0) {
    const std::string count = std::to_string(setup.local_world);
    setup.store->set(key(setup.rank), std::vector<uint8_t>(count.begin(), count.end()));
  }
  std::vector<Host> hosts;
  for (int first = 0; first < setup.world; first += hosts.back().count) {
    try {
      setup.store->wait({key(first)}, setup.timeout);
    } catch (const std::exception&) {
      throw std::runtime_error(
          c10::str("rank ", setup.rank, " waited in vain for rank ", first, ", the leader of its host"));
    }
    hosts.push_back({first, std::stoi(setup.store->get_to_str(key(first)))});
    check(hosts.back().count > 0, "a host without ranks");
  }
  return hosts;
}

BackendSetup within_host(const BackendSetup& setup) {
  BackendSetup local = setup;
  local.store = c10::make_intrusive<c10d::PrefixStore>(c10::str("host-", setup.rank - setup.local_rank), setup.store);
  local.rank = setup.local_rank;
  local.world = setup.local_world;
  return local;
}

BackendSetup between_leaders(const BackendSetup& setup, int own, size_t hosts) {
  BackendSetup leaders = setup;
  leaders.store = c10::make_intrusive<c10d::PrefixStore>("leaders", setup.store);
  leaders.rank = own;
  leaders.world = static_cast<int>(hosts);
  leaders.local_rank = 0;
  leaders.local_world = 1;
  return leaders;
}

// Memory without gaps as one array, whatever its order: a view, never a copy.
at::Tensor flat_view(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense(),
              "shm: takes CPU tensors without gaps in memory: call contiguous() first");
  return tensor.detach().as_strided({tensor.numel()}, {1});
}

const at::Tensor& single(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "shm: takes one tensor a rank, not ", tensors.size());
  return tensors[0];
}

void reduce_over(c10d::Backend& backend, const at::Tensor& flat, ReduceOp op) {
  std::vector<at::Tensor> list{flat};
  c10d::AllreduceOptions options;
  options.reduceOp = std::move(op);
  backend.allreduce(list, options)->wait();
}

void broadcast_over(c10d::Backend& backend, const at::Tensor& flat, int root) {
  std::vector<at::Tensor> list{flat};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  backend.broadcast(list, options)->wait();
}

}  // namespace

HostsBackend::HostsBackend(const BackendSetup& setup, shm::Home home)
    : Backend(setup.rank, setup.world), hosts_(find_hosts(setup)), own_(host_of(setup.rank)) {
  const Host& here = hosts_[own_];
  check(here.first == setup.rank - setup.local_rank && here.count == setup.local_world,
        "the ranks of a host must follow each other");
  local_ = c10::make_intrusive<shm::ShmBackend>(within_host(setup), home);
  if (leads()) leaders_ = backend_registry().at("gloo").make(between_leaders(setup, own_, hosts_.size()));
}

HostsBackend::~HostsBackend() { local_->abort(); }

int HostsBackend::host_of(int rank) const {
  int host = 0;
  while (rank >= hosts_[host].first + hosts_[host].count) ++host;
  return host;
}

// A failure on one host must not leave the others waiting: the group is broken there, and the leaders' sockets close.
HostsBackend::WorkPtr HostsBackend::start(OpType type, Tensors outputs, std::function<void()> steps) {
  auto work = c10::make_intrusive<CommWork>(rank_, type, ++calls_, std::move(outputs));
  queue_.push([this, work, steps = std::move(steps)] {
    const c10::NoGradGuard guard;
    try {
      if (failure_) std::rethrow_exception(failure_);
      steps();
      return work->succeed();
    } catch (const std::exception& error) {
      failure_ = std::current_exception();
      local_->fail(error.what());
      leaders_ = nullptr;
    }
    work->fail(failure_);
  });
  return work;
}

void HostsBackend::from_leader(const at::Tensor& flat) { broadcast_over(*local_, flat, 0); }

void HostsBackend::sum_everywhere(const at::Tensor& flat, const ReduceOp& op) {
  const bool average = op.op_ == ReduceOp::AVG;
  const ReduceOp inner = average ? ReduceOp(ReduceOp::SUM) : op;
  reduce_over(*local_, flat, inner);
  if (leads() && flat.numel() > 0) {
    reduce_over(*leaders_, flat, inner);
    if (average) flat.div_(size_);
  }
  from_leader(flat);
}

void HostsBackend::send_everywhere(const at::Tensor& flat, int root) {
  const int source = host_of(root);
  if (source == own_) broadcast_over(*local_, flat, root - hosts_[own_].first);
  if (leads() && flat.numel() > 0) broadcast_over(*leaders_, flat, source);
  if (source != own_) from_leader(flat);
}

void HostsBackend::gather_everywhere(const at::Tensor& whole, const at::Tensor& share) {
  const int64_t count = share.numel();
  const auto part_of = [&](const Host& host) { return whole.narrow(0, host.first * count, host.count * count); };
  auto own_part = part_of(hosts_[own_]), own_share = share;
  local_->_allgather_base(own_part, own_share, {})->wait();
  for (size_t host = 0; leads() && count > 0 && host < hosts_.size(); ++host)
    broadcast_over(*leaders_, part_of(hosts_[host]), static_cast<int>(host));
  from_leader(whole);
}

HostsBackend::WorkPtr HostsBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return start(OpType::ALLREDUCE, tensors,
               [this, flat = flat_view(single(tensors)), op = options.reduceOp] { sum_everywhere(flat, op); });
}

HostsBackend::WorkPtr HostsBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  return start(OpType::BROADCAST, tensors,
               [this, flat = flat_view(single(tensors)), root] { send_everywhere(flat, root); });
}

HostsBackend::WorkPtr HostsBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions&) {
  TORCH_CHECK(output.numel() == input.numel() * size_, "shm: an output of ", output.sizes(), " does not hold ", size_,
              " shares of ", input.sizes());
  return start(OpType::_ALLGATHER_BASE, {output},
               [this, whole = flat_view(output), share = flat_view(input)] { gather_everywhere(whole, share); });
}

HostsBackend::WorkPtr HostsBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions&) {
  const Tensors all = outputs.at(0);
  TORCH_CHECK(static_cast<int>(all.size()) == size_, "shm: ", all.size(), " outputs for ", size_, " ranks");
  return start(OpType::ALLGATHER, all, [this, all, share = flat_view(single(inputs))] {
    const auto whole = at::empty(share.numel() * size_, share.options());
    gather_everywhere(whole, share);
    for (int r = 0; r < size_; ++r) flat_view(all[r]).copy_(whole.narrow(0, r * share.numel(), share.numel()));
  });
}

HostsBackend::WorkPtr HostsBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(input.numel() == output.numel() * size_, "shm: an input of ", input.sizes(), " does not hold ", size_,
              " shares of ", output.sizes());
  const auto whole = flat_view(input), share = flat_view(output);
  return start(OpType::_REDUCE_SCATTER_BASE, {output}, [this, whole, share, op = options.reduceOp] {
    const auto sum = whole.clone();
    sum_everywhere(sum, op);
    share.copy_(sum.narrow(0, rank_ * share.numel(), share.numel()));
  });
}

HostsBackend::WorkPtr HostsBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  Tensors flat;
  for (const auto& tensor : inputs.at(0)) flat.push_back(flat_view(tensor));
  auto whole = at::cat(flat), share = single(outputs);
  return _reduce_scatter_base(share, whole, options);
}

HostsBackend::WorkPtr HostsBackend::barrier(const c10d::BarrierOptions&) {
  return start(OpType::BARRIER, {}, [this] {
    local_->barrier({})->wait();
    if (leads()) leaders_->barrier()->wait();
    local_->barrier({})->wait();
  });
}

}  // namespace dpbench
