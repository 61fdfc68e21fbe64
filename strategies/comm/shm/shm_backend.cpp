#include "strategies/comm/shm/shm_backend.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

namespace dpbench::shm {
namespace {

using c10d::OpType;

constexpr size_t bytes_per_slot = 1 << 20;
// A collective of more bytes runs in the backend's own thread, not in the caller's.
constexpr size_t max_inline_bytes = 2 << 20;

const at::Tensor& single(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1)
    throw std::invalid_argument("shm: takes one tensor per rank, not " + std::to_string(tensors.size()));
  return tensors[0];
}

// Returns the single list in `lists`. Throws unless there is exactly one list, with one tensor per rank.
const std::vector<at::Tensor>& per_rank_list(const std::vector<std::vector<at::Tensor>>& lists, int world,
                                             const char* what) {
  if (lists.size() != 1)
    throw std::invalid_argument(c10::str("shm: takes one list of ", what, "s per rank, not ", lists.size()));
  if (static_cast<int>(lists[0].size()) != world)
    throw std::invalid_argument(c10::str("shm: ", lists[0].size(), " ", what, "s for ", world, " ranks"));
  return lists[0];
}

size_t total_bytes(const std::vector<Job>& jobs) {
  size_t bytes = 0;
  for (const auto& job : jobs)
    bytes += job.bytes() * std::max<size_t>(1, std::max(job.sends.size(), job.receives.size()));
  return bytes;
}

// Splits a contiguous tensor into equal flat parts, one per rank. Throws if the sizes do not match.
std::vector<at::Tensor> shares(const at::Tensor& whole, const at::Tensor& share, int world) {
  if (whole.numel() != share.numel() * world || !whole.is_contiguous())
    throw std::invalid_argument(c10::str("shm: a tensor of ", whole.sizes(), " does not hold ", world,
                                         " contiguous shares of ", share.sizes()));
  return whole.view({-1}).split(std::max<int64_t>(1, share.numel()));
}

}  // namespace

ShmBackend::ShmBackend(const BackendSetup& setup, Home home, int first_rank)
    : Backend(setup.rank, setup.world),
      home_(home),
      timeout_(setup.timeout),
      group_(setup, home, bytes_per_slot, first_rank) {}

ShmBackend::~ShmBackend() { group_.leave(); }

void ShmBackend::abort() { group_.leave(); }

void ShmBackend::fail(const std::string& reason) {
  try {
    group_.fail(reason);
  } catch (const std::exception&) {
    // HostGroup::fail() always throws. The exception is not needed here, because the caller reports the reason itself.
  }
}

ShmBackend::WorkPtr ShmBackend::start(OpType type, std::vector<Job> jobs, Tensors outputs, Tensors inputs,
                                      std::chrono::milliseconds timeout) {
  if (jobs.empty()) throw std::invalid_argument("shm: takes at least one tensor");
  const std::lock_guard lock(starting_);
  auto work = c10::make_intrusive<CommWork>(rank_, type, ++calls_, std::move(outputs));
  const bool inline_begin = queue_.idle() && total_bytes(jobs) <= max_inline_bytes;
  Task task{std::move(jobs), std::move(inputs), timeout.count() > 0 ? timeout : timeout_, work};
  // A callback of a collective's future runs in the queue's thread. The callback may start a collective and wait for
  // it. The collective therefore runs at once: a queued one would start only after the callback, which waits for it.
  if (queue_.runs_this_thread())
    run_task(task, false);
  else if (!inline_begin || !try_inline(task))
    queue_.push([this, inline_begin, task = std::move(task)]() mutable { run_task(task, inline_begin); });
  return work;
}

// Begins a collective, waits briefly for the other ranks, and finishes it if they arrive. Returns false if the
// backend's thread has to finish it.
bool ShmBackend::try_inline(Task& task) {
  try {
    collectives_.begin(task.jobs[0]);
  } catch (...) {
    task.work->fail(std::current_exception());
    return true;
  }
  if (!group_.wait_briefly()) return false;
  run_task(task, true);
  return true;
}

void ShmBackend::run_task(Task& task, bool begun) {
  try {
    const auto deadline = Clock::now() + task.timeout;
    for (const auto& job : task.jobs) {
      if (!std::exchange(begun, false)) collectives_.begin(job);
      collectives_.finish(job, deadline);
    }
  } catch (...) {
    // The outputs of a failed call are kept alive, because another rank that is late may still write to them.
    abandoned_.push_back(task.work->result());
    return task.work->fail(std::current_exception());
  }
  task.work->succeed();
}

ShmBackend::WorkPtr ShmBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return start(OpType::ALLREDUCE, {allreduce_job(single(tensors), options.reduceOp)}, tensors, {}, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  std::vector<Job> jobs;
  for (const auto& tensor : tensors) jobs.push_back(allreduce_job(tensor, options.reduceOp));
  return start(OpType::ALLREDUCE_COALESCED, std::move(jobs), tensors, {}, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const int root = checked_root(options.rootRank, size_);
  return start(OpType::REDUCE, {reduce_job(single(tensors), options.reduceOp, root, rank_)}, tensors, {},
               options.timeout);
}

ShmBackend::WorkPtr ShmBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const int root = checked_root(options.rootRank, size_);
  return start(OpType::BROADCAST, {broadcast_job(single(tensors), root, rank_)}, tensors, {}, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  const Tensors& all = per_rank_list(outputs, size_, "output");
  return start(OpType::ALLGATHER, {exchange_job(Kind::allgather, {single(inputs)}, all, -1)}, all, inputs,
               options.timeout);
}

Job ShmBackend::allgather_flat_job(const at::Tensor& output, const at::Tensor& input) const {
  const auto flat = input.view({-1});
  return exchange_job(Kind::allgather, {flat}, shares(output, input, size_), -1);
}

ShmBackend::WorkPtr ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& options) {
  return start(OpType::_ALLGATHER_BASE, {allgather_flat_job(output, input)}, {output}, {input}, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                const c10d::AllgatherOptions& options) {
  std::vector<Job> jobs;
  require_pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) jobs.push_back(allgather_flat_job(outputs[i], inputs[i]));
  return start(OpType::COALESCED, std::move(jobs), outputs, inputs, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  const Tensors& all = per_rank_list(inputs, size_, "input");
  Job job = reduce_scatter_job(all, single(outputs), options.reduceOp);
  return start(OpType::REDUCE_SCATTER, {std::move(job)}, outputs, all, options.timeout);
}

Job ShmBackend::reduce_scatter_flat_job(const at::Tensor& output, const at::Tensor& input,
                                        const c10d::ReduceOp& op) const {
  return reduce_scatter_job(shares(input, output, size_), output.view({-1}), op);
}

ShmBackend::WorkPtr ShmBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  Job job = reduce_scatter_flat_job(output, input, options.reduceOp);
  return start(OpType::_REDUCE_SCATTER_BASE, {std::move(job)}, {output}, {input}, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                const c10d::ReduceScatterOptions& options) {
  std::vector<Job> jobs;
  require_pairs(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    jobs.push_back(reduce_scatter_flat_job(outputs[i], inputs[i], options.reduceOp));
  return start(OpType::COALESCED, std::move(jobs), outputs, inputs, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                       const c10d::GatherOptions& options) {
  const int root = checked_root(options.rootRank, size_);
  const Tensors all = rank_ == root ? per_rank_list(outputs, size_, "output") : Tensors{};
  return start(OpType::GATHER, {exchange_job(Kind::gather, {single(inputs)}, all, root)}, all, inputs, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ScatterOptions& options) {
  const int root = checked_root(options.rootRank, size_);
  const Tensors all = rank_ == root ? per_rank_list(inputs, size_, "input") : Tensors{};
  Job job = exchange_job(Kind::scatter, all, {single(outputs)}, root);
  std::vector<char*> from_root(size_, nullptr);
  from_root.at(root) = job.receives[0];
  job.receives = from_root;
  return start(OpType::SCATTER, {std::move(job)}, outputs, all, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  per_rank_list({outputs}, size_, "output"), per_rank_list({inputs}, size_, "input");
  return start(OpType::ALLTOALL, {exchange_job(Kind::alltoall, inputs, outputs, -1)}, outputs, inputs, options.timeout);
}

ShmBackend::WorkPtr ShmBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                                              std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  if (!output_sizes.empty() || !input_sizes.empty()) {
    const auto to = pieces_of_ranks(output, output_sizes, size_), from = pieces_of_ranks(input, input_sizes, size_);
    return alltoall_by_messages(output, to, from, options);
  }
  check(input.dim() > 0 && input.size(0) % size_ == 0 && input.sizes() == output.sizes(),
        c10::str("alltoall without sizes takes pieces of equal sizes only: input of ", shape_of(input), ", output of ",
                 shape_of(output), ", ", size_, " ranks"));
  if (input.numel() == 0) return barrier({});
  Tensors outputs = output.chunk(size_), inputs = input.chunk(size_);
  return alltoall(outputs, inputs, options);
}

// Runs an all-to-all as messages between pairs of ranks. Empty pieces are not sent.
ShmBackend::WorkPtr ShmBackend::alltoall_by_messages(const at::Tensor& output, const Tensors& to, const Tensors& from,
                                                     const c10d::AllToAllOptions& options) {
  // The tag of an all-to-all's messages; no send or recv of a strategy uses it.
  constexpr int tag = std::numeric_limits<int>::max();
  const auto limit = options.timeout.count() > 0 ? options.timeout : timeout_;
  require_own_piece(to, from, rank_);
  to[rank_].detach().copy_(from[rank_]);
  std::vector<c10::intrusive_ptr<CommWork>> messages;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (to[peer].numel() > 0) messages.push_back(messages_.recv(to[peer], peer, tag, limit));
    if (from[peer].numel() > 0) messages.push_back(messages_.send(from[peer], peer, tag, limit));
  }
  auto work = c10::make_intrusive<CommWork>(rank_, OpType::ALLTOALL_BASE, ++calls_, Tensors{output});
  const auto left = std::make_shared<std::atomic<size_t>>(messages.size() + 1);
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  const auto done = [work, left, failed](std::exception_ptr error) {
    if (error && !failed->exchange(true)) work->fail(std::move(error));
    if (--*left == 0 && !failed->load()) work->succeed();
  };
  for (const auto& message : messages)
    message->getFuture()->addCallback(
        [done](c10::ivalue::Future& one) { done(one.hasError() ? one.exception_ptr() : nullptr); });
  done(nullptr);
  return work;
}

ShmBackend::WorkPtr ShmBackend::send(Tensors& tensors, int to, int tag) {
  return messages_.send(single(tensors), to, tag, timeout_);
}

ShmBackend::WorkPtr ShmBackend::recv(Tensors& tensors, int from, int tag) {
  return messages_.recv(single(tensors), from, tag, timeout_);
}

ShmBackend::WorkPtr ShmBackend::barrier(const c10d::BarrierOptions& options) {
  return start(OpType::BARRIER, {barrier_job()}, {}, {}, options.timeout);
}

}  // namespace dpbench::shm
