#include "strategies/comm/hosts/hosts.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <c10/core/GradMode.h>

#include <cstring>
#include <limits>
#include <stdexcept>

namespace dpbench {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using Milliseconds = std::chrono::milliseconds;

std::string leader_key(int leader) { return c10::str("leader-", leader); }
std::string complete_key(int leader) { return c10::str("complete-", leader); }

// Returns all hosts. Each leader (first rank of a host) publishes its host's number of ranks; the ranks of a host are
// consecutive.
std::vector<Host> find_hosts(const BackendSetup& setup, SideChannel& side_channel) {
  if (setup.local_rank == 0) side_channel.set(leader_key(setup.rank), std::to_string(setup.local_world));
  std::vector<Host> hosts;
  for (int first = 0; first < setup.world; first += hosts.back().count) {
    if (!side_channel.wait_for(leader_key(first), setup.timeout))
      throw std::runtime_error(c10::str("rank ", setup.global(setup.rank), " timed out waiting for rank ",
                                        setup.global(first), ", the leader of its host"));
    hosts.push_back({first, std::stoi(side_channel.get(leader_key(first)))});
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
  leaders.note = {};  // collectives between leaders are not logged, because the strategy does not call them
  return leaders;
}

// Returns a flat view of a dense tensor in memory order, without a copy.
at::Tensor flat_view(const at::Tensor& tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

const at::Tensor& single(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "shm: takes one tensor per rank, not ", tensors.size());
  return tensors[0];
}

}  // namespace

HostsBackend::HostsBackend(const BackendSetup& setup, shm::Home home)
    : Backend(setup.rank, setup.world), timeout_(setup.timeout), side_channel_(setup.store), pairs_(setup) {
  hosts_.rank = setup.rank;
  for (int rank = 0; rank < setup.world; ++rank) hosts_.numbers.push_back(setup.global(rank));
  try {
    join(setup, home);
  } catch (const std::exception& error) {
    throw std::runtime_error(side_channel_.give_up(error.what()));
  }
}

void HostsBackend::join(const BackendSetup& setup, shm::Home home) {
  hosts_.all = find_hosts(setup, side_channel_);
  hosts_.own = hosts_.host_of(setup.rank);
  const Host& here = hosts_.here();
  check(here.first == setup.rank - setup.local_rank && here.count == setup.local_world,
        "the ranks of a host must be consecutive");
  local_ = c10::make_intrusive<shm::ShmBackend>(within_host(setup), home, here.first);
  if (hosts_.leads()) connect(setup);
}

// Connects the leaders (first ranks) of the hosts, once all ranks of all hosts have joined. If ranks of a host are
// missing, that host itself reports them.
void HostsBackend::connect(const BackendSetup& setup) {
  side_channel_.set(complete_key(rank_), "");
  for (const Host& host : hosts_.all)
    if (!side_channel_.wait_for(complete_key(host.first), timeout_ + reason_grace))
      throw std::runtime_error(c10::str("rank ", hosts_.global(rank_), " timed out waiting for ranks ",
                                        hosts_.global(host.first), " to ", hosts_.global(host.first + host.count - 1)));
  leaders_ = backend_registry().at("gloo").make(between_leaders(setup, hosts_.own, hosts_.all.size()));
}

HostsBackend::~HostsBackend() {
  waits_.leave();
  abort();
}

void HostsBackend::abort() {
  waits_.abort();
  pairs_.abort();
  local_->abort();
}

// Writes the failure's reason to the store before this leader closes its connections to other leaders, so that the
// other hosts stop waiting and know the reason. Returns the exception to throw.
std::exception_ptr HostsBackend::give_up(const std::string& reason) {
  const std::string why = side_channel_.give_up(reason);
  local_->fail(why);
  return std::make_exception_ptr(std::runtime_error(why));
}

HostsBackend::WorkPtr HostsBackend::start(OpType type, Part part, Milliseconds timeout, Tensors outputs) {
  const HostsCall mine{part.call, ++calls_ + 1, timeout.count() > 0 ? timeout : timeout_};
  auto work = c10::make_intrusive<CommWork>(rank_, type, mine.number - 1, std::move(outputs));
  queue_.push([this, mine, work, steps = std::move(part.steps)] {
    const c10::NoGradGuard guard;
    waits_.begin(mine);
    try {
      if (failure_) std::rethrow_exception(failure_);
      require_agreement();
      waits_.clear_old_flags();
      steps();
      return work->succeed();
    } catch (const std::exception& error) {
      if (!failure_) failure_ = give_up(error.what());
    }
    work->fail(failure_);
    leaders_ = nullptr;
  });
  return work;
}

// The queue runs the parts in order, and a part fails if an earlier one has failed. So the work of the last part
// completes after all parts, and succeeds only if all of them have succeeded.
HostsBackend::WorkPtr HostsBackend::start_coalesced(OpType type, std::vector<Part> parts, Milliseconds timeout,
                                                    const Tensors& outputs) {
  if (parts.empty()) throw std::invalid_argument("shm: takes at least one tensor");
  WorkPtr last;
  for (Part& part : parts) last = start(type, std::move(part), timeout, outputs);
  return last;
}

void HostsBackend::require_agreement() {
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  const auto mine = at::empty(sizeof(shm::Call), bytes),
             all = at::empty(size_ * static_cast<int64_t>(sizeof(shm::Call)), bytes);
  std::memcpy(mine.data_ptr(), &waits_.current().call, sizeof(shm::Call));
  gather_across_hosts(all, mine, waits_.left());
  const auto call_of = [&](int rank) {
    shm::Call call;
    std::memcpy(&call, all.const_data_ptr<uint8_t>() + rank * sizeof call, sizeof call);
    return call;
  };
  for (int rank = 1; rank < size_; ++rank)
    if (!(call_of(rank) == call_of(0)))
      throw std::runtime_error(c10::str("ranks do not make the same call: rank ", hosts_.global(0), " #",
                                        waits_.current().number, " ", describe(call_of(0)), ", rank ",
                                        hosts_.global(rank), " #", waits_.current().number, " ",
                                        describe(call_of(rank))));
}

void HostsBackend::reduce_over(c10d::Backend& backend, const at::Tensor& flat, const ReduceOp& op) {
  std::vector<at::Tensor> list{flat};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  options.timeout = waits_.padded_timeout();
  waits_.await(backend.allreduce(list, options), &backend == leaders_.get() ? WaitFor::other_hosts : WaitFor::own_host);
}

HostsBackend::WorkPtr HostsBackend::broadcast_over(c10d::Backend& backend, const at::Tensor& flat, int root) const {
  std::vector<at::Tensor> list{flat};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  options.timeout = waits_.padded_timeout();
  return backend.broadcast(list, options);
}

void HostsBackend::from_leader(const at::Tensor& flat) {
  waits_.await(broadcast_over(*local_, flat, 0), hosts_.leads() ? WaitFor::own_host : WaitFor::leader);
}

void HostsBackend::reduce_across_hosts(const at::Tensor& flat, const ReduceOp& op) {
  const bool average = op.op_ == ReduceOp::AVG;
  const ReduceOp inner = average ? ReduceOp(ReduceOp::SUM) : op;
  reduce_over(*local_, flat, inner);
  if (hosts_.leads() && flat.numel() > 0) {
    reduce_over(*leaders_, flat, inner);
    if (average) flat.div_(size_);
  }
  from_leader(flat);
}

void HostsBackend::broadcast_across_hosts(const at::Tensor& flat, int root) {
  const int source = hosts_.host_of(root);
  if (source == hosts_.own) waits_.await(broadcast_over(*local_, flat, root - hosts_.here().first), WaitFor::own_host);
  if (hosts_.leads() && flat.numel() > 0) waits_.await(broadcast_over(*leaders_, flat, source), WaitFor::other_hosts);
  if (source != hosts_.own) from_leader(flat);
}

// Gathers the ranks' shares of a tensor into `whole` on every rank. limit: timeout of the all-gather within this host.
void HostsBackend::gather_across_hosts(const at::Tensor& whole, const at::Tensor& share, Milliseconds limit) {
  const int64_t count = share.numel();
  const auto part_of = [&](const Host& host) { return whole.narrow(0, host.first * count, host.count * count); };
  auto own_part = part_of(hosts_.here()), own_share = share;
  c10d::AllgatherOptions options;
  options.timeout = limit;
  waits_.await(local_->_allgather_base(own_part, own_share, options), WaitFor::own_host);
  std::vector<WorkPtr> parts;
  for (size_t host = 0; hosts_.leads() && count > 0 && host < hosts_.all.size(); ++host)
    parts.push_back(broadcast_over(*leaders_, part_of(hosts_.all[host]), static_cast<int>(host)));
  waits_.await(parts);
  from_leader(whole);
}

HostsBackend::Part HostsBackend::allreduce_part(const at::Tensor& tensor, const ReduceOp& op) {
  return {shm::allreduce_job(tensor, op).call, [this, flat = flat_view(tensor), op] { reduce_across_hosts(flat, op); }};
}

HostsBackend::WorkPtr HostsBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return start(OpType::ALLREDUCE, allreduce_part(single(tensors), options.reduceOp), options.timeout, tensors);
}

HostsBackend::WorkPtr HostsBackend::allreduce_coalesced(Tensors& tensors,
                                                        const c10d::AllreduceCoalescedOptions& options) {
  std::vector<Part> parts;
  for (const auto& tensor : tensors) parts.push_back(allreduce_part(tensor, options.reduceOp));
  return start_coalesced(OpType::ALLREDUCE_COALESCED, std::move(parts), options.timeout, tensors);
}

HostsBackend::WorkPtr HostsBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const int root = shm::checked_root(options.rootRank, size_);
  const auto call = shm::broadcast_job(single(tensors), root, rank_).call;
  const auto steps = [this, flat = flat_view(tensors[0]), root] { broadcast_across_hosts(flat, root); };
  return start(OpType::BROADCAST, {call, steps}, options.timeout, tensors);
}

HostsBackend::Part HostsBackend::allgather_part(const at::Tensor& output, const at::Tensor& input) {
  TORCH_CHECK_VALUE(
      output.numel() == input.numel() * size_ && output.scalar_type() == input.scalar_type() && output.is_contiguous(),
      "shm: ", shm::shape_of(output), " does not hold ", size_, " shares of ", shm::shape_of(input));
  const auto call = shm::exchange_job(shm::Kind::allgather, {input}, {}, -1).call;
  return {call, [this, whole = flat_view(output), share = flat_view(input)] {
            gather_across_hosts(whole, share, waits_.padded_timeout());
          }};
}

HostsBackend::WorkPtr HostsBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  return start(OpType::_ALLGATHER_BASE, allgather_part(output, input), options.timeout, {output});
}

HostsBackend::WorkPtr HostsBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::AllgatherOptions& options) {
  std::vector<Part> parts;
  shm::require_pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) parts.push_back(allgather_part(outputs[i], inputs[i]));
  return start_coalesced(OpType::COALESCED, std::move(parts), options.timeout, outputs);
}

HostsBackend::WorkPtr HostsBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const Tensors& all = outputs.at(0);
  TORCH_CHECK_VALUE(static_cast<int>(all.size()) == size_, "shm: ", all.size(), " outputs for ", size_, " ranks");
  const auto call = shm::exchange_job(shm::Kind::allgather, {single(inputs)}, all, -1).call;
  const auto steps = [this, all, share = flat_view(inputs[0])] {
    const auto whole = at::empty(share.numel() * size_, share.options());
    gather_across_hosts(whole, share, waits_.padded_timeout());
    for (int r = 0; r < size_; ++r) flat_view(all[r]).copy_(whole.narrow(0, r * share.numel(), share.numel()));
  };
  return start(OpType::ALLGATHER, {call, steps}, options.timeout, all);
}

HostsBackend::Part HostsBackend::reduce_scatter_part(const at::Tensor& output, const at::Tensor& input,
                                                     const ReduceOp& op) {
  TORCH_CHECK_VALUE(
      input.numel() == output.numel() * size_ && input.scalar_type() == output.scalar_type() && input.is_contiguous(),
      "shm: ", shm::shape_of(input), " does not hold ", size_, " shares of ", shm::shape_of(output));
  const auto call = shm::reduce_scatter_job({output}, output, op).call;
  return {call, [this, whole = flat_view(input), share = flat_view(output), op] {
            const auto sum = whole.clone();
            reduce_across_hosts(sum, op);
            share.copy_(sum.narrow(0, rank_ * share.numel(), share.numel()));
          }};
}

HostsBackend::WorkPtr HostsBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& options) {
  return start(OpType::_REDUCE_SCATTER_BASE, reduce_scatter_part(output, input, options.reduceOp), options.timeout,
               {output});
}

HostsBackend::WorkPtr HostsBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::ReduceScatterOptions& options) {
  std::vector<Part> parts;
  shm::require_pairs(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    parts.push_back(reduce_scatter_part(outputs[i], inputs[i], options.reduceOp));
  return start_coalesced(OpType::COALESCED, std::move(parts), options.timeout, outputs);
}

HostsBackend::WorkPtr HostsBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  // reduce_scatter_job() is called only for its check: it throws if the tensors do not match.
  (void)shm::reduce_scatter_job(inputs.at(0), single(outputs), options.reduceOp);
  Tensors flat;
  for (const auto& tensor : inputs[0]) flat.push_back(flat_view(tensor));
  auto whole = at::cat(flat);
  return _reduce_scatter_base(outputs[0], whole, options);
}

HostsBackend::WorkPtr HostsBackend::message(const at::Tensor& tensor, int peer, int tag, bool sends) {
  if (peer < 0 || peer >= size_ || peer == rank_)
    throw std::invalid_argument(c10::str("shm: rank ", rank_, " cannot send to or receive from rank ", peer));
  if (!tensor.is_contiguous()) throw std::invalid_argument("shm: sends and receives contiguous CPU tensors only");
  const Host& own = hosts_.here();
  if (peer < own.first || peer >= own.first + own.count)
    return sends ? pairs_.send(tensor, peer, tag) : pairs_.receive(tensor, peer, tag);
  Tensors list = {tensor};
  return sends ? local_->send(list, peer - own.first, tag) : local_->recv(list, peer - own.first, tag);
}

HostsBackend::WorkPtr HostsBackend::send(Tensors& tensors, int to, int tag) {
  return message(single(tensors), to, tag, /*sends=*/true);
}

HostsBackend::WorkPtr HostsBackend::recv(Tensors& tensors, int from, int tag) {
  return message(single(tensors), from, tag, /*sends=*/false);
}

HostsBackend::WorkPtr HostsBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(static_cast<int>(inputs.size()) == size_ && static_cast<int>(outputs.size()) == size_,
                    "shm: ", inputs.size(), " inputs and ", outputs.size(), " outputs for ", size_, " ranks");
  return exchange(shm::exchange_job(shm::Kind::alltoall, inputs, outputs, -1).call, outputs, inputs, options);
}

// Runs an all-to-all as messages between pairs of ranks, without messages for empty pieces. call: the description that
// all ranks compare before the exchange.
HostsBackend::WorkPtr HostsBackend::exchange(const shm::Call& call, const Tensors& outputs, const Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  const auto steps = [this, inputs, outputs] {
    // The tag of an all-to-all's messages; no send or recv of a strategy uses it.
    constexpr int tag = std::numeric_limits<int>::max();
    std::vector<WorkPtr> messages;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      if (outputs[peer].numel() > 0) messages.push_back(message(outputs[peer], peer, tag, /*sends=*/false));
      if (inputs[peer].numel() > 0) messages.push_back(message(inputs[peer], peer, tag, /*sends=*/true));
    }
    outputs[rank_].copy_(inputs[rank_]);
    // CallWaits::await() cannot be used for messages: it waits in short intervals, and Gloo closes a connection when a
    // wait on it times out.
    for (const WorkPtr& one : messages) one->wait(waits_.padded_timeout());
  };
  return start(OpType::ALLTOALL, {call, steps}, options.timeout, outputs);
}

HostsBackend::WorkPtr HostsBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                                  const c10d::AllToAllOptions& options) {
  if (!output_sizes.empty() || !input_sizes.empty()) {
    const Tensors to = shm::pieces_of_ranks(output, output_sizes, size_);
    const Tensors from = shm::pieces_of_ranks(input, input_sizes, size_);
    shm::require_own_piece(to, from, rank_);
    // All ranks must pass an equal description of the call, but the sizes of their pieces may differ. So the
    // description is made from empty tensors.
    const Tensors none(size_, input.flatten().narrow(0, 0, 0));
    return exchange(shm::exchange_job(shm::Kind::alltoall, none, none, -1).call, to, from, options);
  }
  TORCH_CHECK_VALUE(input.dim() > 0 && input.size(0) % size_ == 0 && input.sizes() == output.sizes() &&
                        input.is_contiguous() && output.is_contiguous(),
                    "shm: alltoall without sizes takes pieces of equal sizes only: input of ", shm::shape_of(input),
                    ", output of ", shm::shape_of(output));
  Tensors inputs = input.chunk(size_), outputs = output.chunk(size_);
  return alltoall(outputs, inputs, options);
}

HostsBackend::WorkPtr HostsBackend::barrier(const c10d::BarrierOptions& options) {
  // A barrier needs no code of its own, because start() already waits for all ranks to compare their calls.
  return start(OpType::BARRIER, {shm::barrier_job().call, [] {}}, options.timeout, {});
}

}  // namespace dpbench
