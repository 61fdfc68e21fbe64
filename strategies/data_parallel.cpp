// "dp": one process, a replica per device. Replicas, their threads and flat buffers stay between steps. On the CPU all
// replicas read the parameters of the first, unless the model writes to them or a link was asked for.
#include <algorithm>
#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "strategies/comm/replica_link.h"
#include "strategies/flat.h"
#include "strategies/replica_threads.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

// Once each: a tied tensor has one place.
std::vector<at::Tensor> unique_of(const NamedTensors& named) {
  std::vector<at::Tensor> unique;
  for (const auto& [name, tensor] : named)
    if (std::none_of(unique.begin(), unique.end(), [&](const at::Tensor& other) { return other.is_same(tensor); }))
      unique.push_back(tensor);
  return unique;
}

// A replica whose state lies in one buffer per dtype, parameters and buffers apart unless `together`; its gradients too
// while NCCL sums them.
struct FlatReplica {
  FlatReplica(const Setup& setup, at::Device device, bool together)
      : replica(setup.workload, device, setup.dtype, setup.init_seed, setup.step_seed),
        parameters(unique_of(replica.parameters())) {
    std::vector<at::Tensor> buffers = unique_of(replica.buffers());
    if (together)
      buffers.insert(buffers.begin(), parameters.begin(), parameters.end());
    else
      lay_out(parameters);
    lay_out(buffers);
  }

  void lay_out(const std::vector<at::Tensor>& tensors) { state.emplace_back(tensors).adopt(tensors); }

  // What main has of it; but not the parameters where this replica reads main's own.
  void copy_from(const FlatReplica& main) {
    for (size_t i = reads_main ? 1 : 0; i < state.size(); ++i) state[i].copy_from(main.state[i]);
  }

  void read_from(const FlatReplica& main) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].set_data(main.state[0].views()[i]);
      versions.push_back(parameters[i]._version());
    }
    reads_main = true;
  }

  void require_unwritten() const {
    for (size_t i = 0; i < versions.size(); ++i)
      if (parameters[i]._version() != versions[i])
        throw std::runtime_error("dp: the model has written to a parameter of its own, and had not done so in its first step: "
                                 "replicas on the CPU then read one set of parameters");
  }

  // Where there is none, zeros: the sum wants every place filled.
  void pack_gradients() {
    if (!gradients) gradients.emplace(tensors_of(replica.trainable()));
    for (size_t i = 0; i < replica.trainable().size(); ++i) {
      at::Tensor place = gradients->views()[i];
      const at::Tensor& gradient = gradient_of(i);
      gradient.defined() ? place.copy_(gradient, /*non_blocking=*/true) : place.zero_();
    }
  }

  at::Tensor& gradient_of(size_t parameter) const { return replica.trainable()[parameter].tensor.mutable_grad(); }

  Replica replica;
  std::vector<at::Tensor> parameters;
  std::vector<Flat> state;
  bool reads_main = false;
  std::vector<int64_t> versions;  // of the parameters since then
  std::optional<Flat> gradients;
  Phases::Clock::time_point begun, copied, loaded, done;  // of the last forward pass, while phases are on
};

struct CountDown {
  std::atomic<int>& left;
  ~CountDown() { left.fetch_sub(1, std::memory_order_release); }
};

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

// The same two operations by plain copies and sums, in replica order.
const ReplicaLink plain_link{
    [](const std::vector<at::Tensor>& buffers) {
      for (size_t i = 1; i < buffers.size(); ++i) buffers[i].copy_(buffers[0], /*non_blocking=*/true);
    },
    [](std::vector<at::Tensor>& buffers) {
      for (size_t i = 1; i < buffers.size(); ++i) buffers[0].add_(buffers[i].to(buffers[0].device()));
    }};

// NCCL wants a device for each replica; without it, or for virtual devices, replicas copy and add for themselves unless told otherwise.
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

// A global batch cut for the replicas as torch.chunk cuts it. Rows that did not come with it are got by each replica.
struct Pieces {
  Pieces(const Workload& workload, const Batch& batch, int64_t count) : workload(workload), ids(batch.ids.chunk(count)) {
    if (batch.input.defined()) {
      inputs = batch.input.chunk(count);
      targets = {batch.target};
    } else {
      targets.resize(ids.size());
    }
  }

  Batch take(size_t i) {
    if (!inputs.empty()) return {inputs[i], {}, ids[i]};
    Batch mine = workload.batch(ids[i]);
    targets[i] = mine.target;
    return mine;
  }
  at::Tensor target() const { return targets.size() == 1 ? targets[0] : at::cat(targets); }

  const Workload& workload;
  std::vector<at::Tensor> ids, inputs, targets;
};

class DataParallel : public TrainedStrategy {
 public:
  explicit DataParallel(const Setup& setup)
      : TrainedStrategy(setup), threads_(static_cast<int>(setup.devices.size())), link_(link_between(setup.devices, setup.params.text("link"))) {
    for (const at::Device& device : setup.devices)
      replicas_.push_back(std::make_unique<FlatReplica>(setup, device, /*together=*/link_ != nullptr));
    train(main());
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    StepResult result;
    int most = 1;
    const std::vector<at::Tensor> before = watches_first_step_ ? copy_of_parameters() : std::vector<at::Tensor>{};
    for (size_t k = 0; k < micro.size(); ++k)
      most = std::max(most, run(result, step, micro[k], micro.size(), k == 0, phases));
    if (std::exchange(watches_first_step_, false)) read_one_set(before);
    for (const auto& one : replicas_) one->require_unwritten();
    phases.enter(Phase::communication);
    reduce(most);
    apply_gradients(phases);
    return result;
  }

 private:
  const Replica& main() const { return replicas_[0]->replica; }

  std::vector<at::Tensor> copy_of_parameters() const {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& buffer : replicas_[0]->state[0].buffers()) copies.push_back(buffer.clone());
    return copies;
  }

  // On the CPU replicas need no copies of parameters that the model itself only reads, as this step has shown it does.
  void read_one_set(const std::vector<at::Tensor>& before) {
    for (const auto& one : replicas_) {
      if (!one->replica.device().is_cpu()) return;
      for (size_t i = 0; i < before.size(); ++i)
        if (!at::equal(one->state[0].buffers()[i], before[i])) return;
    }
    for (size_t i = 1; i < replicas_.size(); ++i) replicas_[i]->read_from(*replicas_[0]);
  }

  // One forward and backward pass of all replicas; returns how many had rows.
  int run(StepResult& result, int64_t step, const Batch& batch, size_t micros, bool first, Phases& phases) {
    phases.enter(Phase::scatter);
    const auto count = static_cast<int64_t>(replicas_.size());
    Pieces pieces(workload_, batch, count);
    const int active = static_cast<int>(pieces.ids.size());
    std::vector<at::Tensor> outputs(pieces.ids.size());
    if (link_) broadcast_state();
    phases.enter(Phase::forward);
    const auto now = [on = phases.on()] { return on ? Phases::Clock::now() : Phases::Clock::time_point{}; };
    std::atomic<int> copying = link_ ? 0 : active - 1;
    threads_.run(static_cast<int>(count), [&](int i) {
      const auto index = static_cast<size_t>(i);
      FlatReplica& mine = *replicas_[index];
      if (first) mine.replica.clear_gradients();
      if (i >= active) return;
      mine.begun = now();
      if (i > 0 && !link_) {
        const CountDown at_end{copying};
        mine.copy_from(*replicas_[0]);
      }
      mine.copied = now();
      const Batch rows = mine.replica.to_device(pieces.take(index));
      mine.loaded = now();
      while (i == 0 && copying.load(std::memory_order_acquire) > 0) std::this_thread::yield();  // forward may write
      outputs[index] = mine.replica.forward(step, rows);
      mine.done = now();
    });
    charge_slowest(active, phases);
    phases.enter(Phase::backward);
    const auto slopes = loss_slopes(result, outputs, pieces.target(), micros);
    threads_.run(active, [&](int i) {
      const auto index = static_cast<size_t>(i);
      torch::autograd::backward({outputs[index]}, {slopes[index].to(outputs[index].device())});
    });
    return active;
  }

  // Replicas got parameters and rows at the same time: what the last of them spent on it is what the step did.
  void charge_slowest(int active, Phases& phases) const {
    if (!phases.on() || !main().device().is_cpu()) return;  // a GPU's copies are only started by then
    const auto later = [](const auto& a, const auto& b) { return a->done < b->done; };
    const auto& last = *std::max_element(replicas_.begin(), replicas_.begin() + active, later);
    phases.move(Phase::scatter, last->begun, last->copied);
    phases.move(Phase::data, last->copied, last->loaded);
  }

  // One loss on the gathered output; its slope by each replica's output is where the replicas' backward passes begin.
  std::vector<at::Tensor> loss_slopes(StepResult& result, const std::vector<at::Tensor>& outputs,
                                      const at::Tensor& target, size_t micros) {
    std::vector<at::Tensor> gathered;
    std::vector<int64_t> rows;
    for (const at::Tensor& output : outputs) {
      gathered.push_back(output.detach().to(main().device()));
      rows.push_back(output.size(0));
    }
    at::Tensor output = at::cat(gathered).requires_grad_();
    const at::Tensor loss = loss_of(output, main().to_device({{}, target, {}}).target, micros);
    loss.backward();
    add_micro(result, output, loss);
    return output.grad().split_with_sizes(rows);
  }

  void broadcast_state() const {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < replicas_[0]->state[0].buffers().size(); ++i) {
      std::vector<at::Tensor> buffers;
      for (const auto& one : replicas_) buffers.push_back(one->state[0].buffers()[i]);
      link_->broadcast(buffers);
    }
  }

  // The sum of all replicas' gradients, in replica 0.
  void reduce(int active) {
    if (active == 1) return;
    const at::NoGradGuard no_grad;
    if (link_) return reduce_by_link();
    const std::vector<size_t> bases = first_with_gradient();
    threads_.run(active, [&](int i) { add_piece(bases, i, active); });
  }

  void reduce_by_link() {
    for (const auto& one : replicas_) one->pack_gradients();
    for (size_t i = 0; i < replicas_[0]->gradients->buffers().size(); ++i) {
      std::vector<at::Tensor> buffers;
      for (const auto& one : replicas_) buffers.push_back(one->gradients->buffers()[i]);
      link_->reduce(buffers);
    }
    for (size_t i = 0; i < main().trainable().size(); ++i)
      if (used_by(i) < replicas_.size()) replicas_[0]->gradient_of(i) = replicas_[0]->gradients->views()[i];
  }

  // The first replica that has a gradient of this parameter; their number if none has.
  size_t used_by(size_t parameter) const {
    size_t replica = 0;
    while (replica < replicas_.size() && !replicas_[replica]->gradient_of(parameter).defined()) ++replica;
    return replica;
  }

  // Gives replica 0 the gradients that only others have, to add the rest to.
  std::vector<size_t> first_with_gradient() const {
    std::vector<size_t> bases;
    for (size_t i = 0; i < main().trainable().size(); ++i) {
      bases.push_back(used_by(i));
      if (bases[i] > 0 && bases[i] < replicas_.size())
        replicas_[0]->gradient_of(i) = replicas_[bases[i]]->gradient_of(i).to(main().device());
    }
    return bases;
  }

  // Every replica's thread sums an equal part of all elements, in replica order: the same bits in every run.
  void add_piece(const std::vector<size_t>& bases, int part, int parts) const {
    int64_t total = 0, begin = 0;
    for (const Parameter& parameter : main().trainable()) total += parameter.tensor.numel();
    const int64_t first = total * part / parts, last = total * (part + 1) / parts;
    for (size_t i = 0; i < bases.size(); ++i) {
      const int64_t numel = main().trainable()[i].tensor.numel();
      const int64_t from = std::max<int64_t>(first - begin, 0), to = std::min(last - begin, numel);
      begin += numel;
      if (from >= to) continue;
      for (size_t other = bases[i] + 1; other < replicas_.size(); ++other)
        if (const at::Tensor& gradient = replicas_[other]->gradient_of(i); gradient.defined())
          add_range(replicas_[0]->gradient_of(i), gradient, from, to);
    }
  }

  std::vector<std::unique_ptr<FlatReplica>> replicas_;
  ReplicaThreads threads_;
  const ReplicaLink* link_;
  bool watches_first_step_ = link_ == nullptr;  // whether the model writes to its parameters; a link refreshes all replicas anyway
};

const RegisterStrategy dp{
    {.name = "dp",
     .summary = "DataParallel: one process, a replica per device, one loss on the gathered output",
     .parallelism = Parallelism::replicas,
     .gradient = Gradient::gathered,
     .buffers = Buffers::first_replica,
     .loads_rows = true,
     .params = {{"link", "auto",
                 "auto: NCCL moves one buffer of all state and one of all gradients where each replica has a GPU of its own, else each replica "
                 "copies and adds its part; plain: such buffers, by copies and sums on any device"}},
     .make = make<DataParallel>,
     .variants = {{"plain_link", {{"link", "plain"}}}}}};

}  // namespace
}  // namespace dpbench
