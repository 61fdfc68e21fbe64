#include "harness/micro/collective.h"

#include <array>
#include <vector>

#include <ATen/ATen.h>

namespace dpbench::micro {
namespace {

using TensorList = std::vector<at::Tensor>;

double one_share(double) { return 1; }
double share_of_others(double n) { return (n - 1) / n; }

void run_allreduce(Call& call) {
  TensorList tensors{call.output};
  c10d::AllreduceOptions options;
  options.reduceOp = call.reduction;
  call.backend->allreduce(tensors, options)->wait();
}

void run_reduce(Call& call) {
  TensorList tensors{call.output};
  c10d::ReduceOptions options;
  options.reduceOp = call.reduction;
  call.backend->reduce(tensors, options)->wait();
}

void run_reduce_scatter(Call& call) {
  c10d::ReduceScatterOptions options;
  options.reduceOp = call.reduction;
  call.backend->_reduce_scatter_base(call.output, call.input, options)->wait();
}

void run_allgather(Call& call) { call.backend->_allgather_base(call.output, call.input, {})->wait(); }

void run_broadcast(Call& call) {
  TensorList tensors{call.output};
  call.backend->broadcast(tensors, {})->wait();
}

// In a gather, only the root has outputs.
void run_gather(Call& call) {
  TensorList inputs{call.input};
  std::vector<TensorList> outputs;
  if (call.backend->getRank() == 0) outputs.push_back(call.parts);
  call.backend->gather(outputs, inputs, {})->wait();
}

// In a scatter, only the root has inputs.
void run_scatter(Call& call) {
  TensorList outputs{call.output};
  std::vector<TensorList> inputs;
  if (call.backend->getRank() == 0) inputs.push_back(call.parts);
  call.backend->scatter(outputs, inputs, {})->wait();
}

void run_alltoall(Call& call) {
  std::vector<int64_t> even;
  call.backend->alltoall_base(call.output, call.input, even, even, {})->wait();
}

int previous_of(int rank, int world) { return (rank + world - 1) % world; }

// Every rank sends to the next one and receives from the previous one. NCCL needs both calls in one group.
void run_sendrecv(Call& call) {
  const int rank = call.backend->getRank(), world = call.backend->getSize();
  TensorList sent{call.input}, received{call.output};
  const bool grouped = call.backend->supportsCoalescing();
  if (grouped) call.backend->startCoalescing();
  const auto send = call.backend->send(sent, (rank + 1) % world, 0);
  const auto receive = call.backend->recv(received, previous_of(rank, world), 0);
  if (grouped) {
    call.backend->endCoalescing()->wait();
  } else {
    send->wait();
    receive->wait();
  }
}

void run_barrier(Call& call) { call.backend->barrier({})->wait(); }

at::Tensor everything_reduced(const Inputs& inputs, int64_t all, int) { return inputs.reduced(0, all); }

// Returns elements [from, from + count) of every rank's input, concatenated in the order of ranks.
at::Tensor of_all_ranks(const Inputs& inputs, int64_t from, int64_t count) {
  TensorList parts;
  for (int rank = 0; rank < inputs.world; ++rank) parts.push_back(inputs.of(rank, from, count));
  return at::cat(parts);
}

const std::array<Collective, 10> all_collectives = {
    {{CollectiveName::allreduce, Roles::one, false, true, [](double n) { return 2 * (n - 1) / n; }, run_allreduce,
      everything_reduced},
     {CollectiveName::reduce, Roles::one, false, true, one_share, run_reduce,
      [](const Inputs& inputs, int64_t all, int rank) { return rank == 0 ? inputs.reduced(0, all) : at::Tensor(); }},
     {CollectiveName::reduce_scatter, Roles::whole_to_part, true, true, share_of_others, run_reduce_scatter,
      [](const Inputs& inputs, int64_t all, int rank) {
        return inputs.reduced(rank * (all / inputs.world), all / inputs.world);
      }},
     {CollectiveName::allgather, Roles::part_to_whole, true, false, share_of_others, run_allgather,
      [](const Inputs& inputs, int64_t all, int) { return of_all_ranks(inputs, 0, all / inputs.world); }},
     {CollectiveName::broadcast, Roles::one, false, false, one_share, run_broadcast,
      [](const Inputs& inputs, int64_t all, int) { return inputs.of(0, 0, all); }},
     {CollectiveName::gather, Roles::part_to_root, true, false, share_of_others, run_gather,
      [](const Inputs& inputs, int64_t all, int rank) {
        return rank == 0 ? of_all_ranks(inputs, 0, all / inputs.world) : at::Tensor();
      }},
     {CollectiveName::scatter, Roles::root_to_part, true, false, share_of_others, run_scatter,
      [](const Inputs& inputs, int64_t all, int rank) {
        return inputs.of(0, rank * (all / inputs.world), all / inputs.world);
      }},
     {CollectiveName::alltoall, Roles::two, true, false, share_of_others, run_alltoall,
      [](const Inputs& inputs, int64_t all, int rank) {
        return of_all_ranks(inputs, rank * (all / inputs.world), all / inputs.world);
      }},
     {CollectiveName::sendrecv, Roles::two, false, false, one_share, run_sendrecv,
      [](const Inputs& inputs, int64_t all, int rank) { return inputs.of(previous_of(rank, inputs.world), 0, all); }},
     {CollectiveName::barrier, Roles::one, false, false, one_share, run_barrier,
      [](const Inputs&, int64_t, int) { return at::Tensor(); }}}};

}  // namespace

const Collective& collective_of(CollectiveName name) { return all_collectives.at(static_cast<size_t>(name)); }

Call new_call(const Collective& collective, const Inputs& inputs, int64_t all, bool in_place,
              const c10::intrusive_ptr<c10d::Backend>& backend, at::Device device) {
  const auto options = at::TensorOptions().dtype(element_type(inputs.dtype).scalar).device(device);
  const int64_t part = all / inputs.world;
  const at::Tensor whole = at::empty(all, options);
  Call call{backend, whole, whole, inputs.reduction()};
  if (collective.roles == Roles::two) call.output = at::empty(all, options);
  const bool from_part = collective.roles == Roles::part_to_whole || collective.roles == Roles::part_to_root;
  const bool to_part = collective.roles == Roles::whole_to_part || collective.roles == Roles::root_to_part;
  if (!from_part && !to_part) return call;
  if (!collective.has_in_place()) call.parts = whole.chunk(inputs.world);
  at::Tensor& own_part = from_part ? call.input : call.output;
  own_part = in_place ? whole.narrow(0, backend->getRank() * part, part) : at::empty(part, options);
  return call;
}

}  // namespace dpbench::micro
