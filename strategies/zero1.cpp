// The strategy "zero1": sharded optimizer state (ZeRO stage 1). Each step reduce-scatters the gradients, steps this
// rank's shard and all-gathers the parameters. Shard r is the r-th part of all parameters, flattened and padded to a
// multiple of the world size.
#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "strategies/api/parts/broadcast.h"
#include "strategies/api/parts/flat.h"
#include "strategies/api/parts/optimizer.h"
#include "strategies/api/parts/replica.h"
#include "strategies/api/parts/same_model.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/parts/compat.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/parts/unused_parameters.h"

namespace dpbench {
namespace {

// The part of one parameter that lies in this rank's shard: where it begins in the parameter and in the shard, and its
// number of elements.
struct Slice {
  size_t parameter, buffer;
  int64_t in_parameter, in_shard, count;
};

// All parameters and gradients in flat buffers, one per dtype. Every rank holds whole buffers but steps only its own
// shard of each.
class Shards {
 public:
  // Copies the parameters into flat buffers and makes them views of these buffers.
  Shards(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<at::Tensor>& tensors)
      : group_(std::move(group)),
        tensors_(tensors),
        parameters_(tensors, group_->getSize()),
        gradients_(tensors, group_->getSize()) {
    parameters_.adopt(tensors_);
    for (const at::Tensor& buffer : parameters_.buffers()) {
      own_.push_back(shard_of(buffer).clone());
      own_.back().mutable_grad() = at::zeros_like(own_.back());
    }
  }

  // Returns this rank's shards: one tensor per flat buffer, each with its gradient.
  const std::vector<at::Tensor>& own() const { return own_; }

  void clear_gradients() {
    for (at::Tensor buffer : gradients_.buffers()) buffer.zero_();
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].mutable_grad() = gradients_.views()[i];
  }

  void reduce_gradients() {
    const double share = 1.0 / static_cast<double>(group_->getSize());
    for (size_t b = 0; b < own_.size(); ++b) {
      at::Tensor buffer = gradients_.buffers()[b], shard = own_[b].grad();
      // Gradients are multiplied by 1 / (number of ranks) before they are summed, as in c10d's Reducer.
      buffer.mul_(share);
      reduce_scatter_flat(*group_, shard, buffer);
    }
  }

  // Returns the gradients of this rank's shards, one tensor per flat buffer.
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& shard : own_) gradients.push_back(shard.grad());
    return gradients;
  }

  void gather_parameters() { gather(parameters_, own_); }
  void copy_own_parameters() {
    for (size_t b = 0; b < own_.size(); ++b) own_[b].copy_(shard_of(parameters_.buffers()[b]));
  }

  // Gathers the shards of all ranks and returns them as whole tensors in the shapes of the parameters. Collective:
  // every rank must call it.
  std::vector<at::Tensor> gather_whole(const std::vector<at::Tensor>& shards) const {
    const Flat all(tensors_, group_->getSize());
    gather(all, shards);
    return all.views();
  }

  // Returns this rank's slices: for each parameter, the part that lies in this rank's shards. A parameter without
  // elements has a slice on every rank, where its optimizer steps are counted. The optimizer steps each slice by itself
  // and not the shard as a whole: a fused kernel rounds the last elements of a tensor differently if they do not fill a
  // SIMD vector, so other cuts give other bits.
  std::vector<Slice> slices() const {
    std::vector<Slice> all;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const size_t b = buffer_of(tensors_[i]);
      const int64_t size = own_[b].numel(), first = parameters_.views()[i].storage_offset();
      const int64_t from = std::max(first, group_->getRank() * size);
      const int64_t to = std::min(first + tensors_[i].numel(), (group_->getRank() + 1) * size);
      if (tensors_[i].numel() == 0)
        all.push_back({i, b, 0, 0, 0});
      else if (from < to)
        all.push_back({i, b, from - first, from - group_->getRank() * size, to - from});
    }
    return all;
  }

 private:
  at::Tensor shard_of(const at::Tensor& buffer) const {
    const int64_t size = buffer.numel() / group_->getSize();
    return buffer.narrow(0, group_->getRank() * size, size);
  }

  size_t buffer_of(const at::Tensor& tensor) const {
    for (size_t b = 0; b < own_.size(); ++b)
      if (own_[b].scalar_type() == tensor.scalar_type()) return b;
    return 0;
  }

  void gather(const Flat& into, const std::vector<at::Tensor>& shards) const {
    for (size_t b = 0; b < shards.size(); ++b) {
      at::Tensor buffer = into.buffers()[b], shard = shards[b];
      allgather_flat(*group_, buffer, shard);
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<at::Tensor> tensors_;
  Flat parameters_, gradients_;
  std::vector<at::Tensor> own_;
};

// Returns zero1's traffic in one step: a reduce-scatter of the gradients, an all-gather of the parameter shards, an
// all-reduce of the squared norm if several ranks clip gradients by their norm, and a broadcast of the model's buffers.
std::optional<std::vector<Traffic>> zero1_traffic(const TrafficQuery& query) {
  const int64_t world = size_of(query.mesh, "dp"), whole = flat_bytes(query, world);
  const int64_t buffers = flat_buffers(query);
  std::vector<Traffic> all = {{"dp", "reduce_scatter", whole, buffers}, {"dp", "allgather", whole / world, buffers}};
  if (query.clips && world > 1) all.push_back({"dp", "allreduce", sizeof(double), 1});
  all.push_back({"dp", "broadcast", query.bytes_of(named_buffers(query.model))});
  return all;
}

class Zero1 : public Strategy {
 public:
  explicit Zero1(const Setup& setup)
      : workload_(setup.workload),
        group_(setup.mesh.group()),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        clip_norm_(setup.clip_norm),
        tensors_(replica_.trainable_tensors("zero1")),
        buffers_(replica_.buffer_list()) {
    require_same_model(*group_, replica_);
    broadcast_from(0, group_, replica_.detached());
    shards_.emplace(group_, tensors_);
    slices_ = shards_->slices();
    track_used_parameters();
    optimizer_.emplace(workload_.optimizer(), slices_of_parameters(), dimensions_of_slices());
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty()) throw std::runtime_error("zero1: this rank has no samples in step " + std::to_string(step));
    clear_gradients();
    phases.enter(Phase::communication);
    if (!buffers_.empty()) broadcast_from(0, group_, buffers_);
    const StepResult result = replica_.passes(workload_, step, micro, phases);
    require_all_used();
    const at::NoGradGuard no_grad;
    phases.enter(Phase::communication);
    shards_->reduce_gradients();
    if (clip_norm_) clip_parts(shards_->gradients(), *clip_norm_, replica_.device(), {group_.get()});
    phases.enter(Phase::optimizer);
    optimizer_->step(step);
    phases.enter(Phase::communication);
    shards_->gather_parameters();
    return result;
  }

  at::Tensor forward(const Batch& mine) override { return replica_.evaluate(mine); }
  NamedTensors parameters() override { return replica_.parameters(); }
  NamedTensors buffers() override { return replica_.buffers(); }
  NamedTensors gradients() override { return named(shards_->gather_whole(shards_->gradients()), ""); }
  NamedTensors state() override {
    NamedTensors all;
    const auto counts = [&] {
      return largest_step_counts(replica_.trainable(), optimizer_->state(), replica_.device(), group_.get());
    };
    for (const Slot slot : state_slots(workload_.optimizer()))
      for (auto& one : named(slot == Slot::step ? counts() : shards_->gather_whole(state_shards(slot)), "." + slot))
        all.push_back(std::move(one));
    return all;
  }

  KeptTensors kept_tensors() override {
    return {replica_.parameters(), replica_.buffers(), replica_.gradients(), optimizer_->state()};
  }

  void load(const Snapshot& snapshot) override {
    load_into(parameters(), snapshot.parameters, "parameter");
    load_into(buffers(), snapshot.buffers, "buffer");
    const at::NoGradGuard no_grad;
    shards_->copy_own_parameters();
    // state() gathers the optimizer state of all ranks and returns copies, into which load_into() writes.
    const NamedTensors wanted = state();
    load_into(wanted, snapshot.state, "optimizer state");
    for (const Slice& slice : slices_)
      for (const auto& [name, value] : wanted) load_slice(slice, name, value);
  }

 private:
  // Installs hooks that detect unused parameters. An undefined gradient cannot show this: all gradients lie in
  // preallocated flat buffers, so the gradient of an unused parameter is zero.
  void track_used_parameters() {
    used_.assign(tensors_.size(), false);
    for (size_t i = 0; i < tensors_.size(); ++i)
      tensors_[i].register_hook([this, i](const at::Tensor& gradient) {
        if (gradient.defined()) used_[i] = true;
      });
  }

  void clear_gradients() {
    const at::NoGradGuard no_grad;
    used_.assign(tensors_.size(), false);
    shards_->clear_gradients();
  }

  void require_all_used() const {
    std::vector<std::string> unused;
    for (size_t i = 0; i < used_.size(); ++i)
      if (!used_[i]) unused.push_back(name_of(i));
    if (!unused.empty()) refuse_unused("zero1", unused, ". Use strategy ddp with --param ddp.find_unused=on.");
  }

  const std::string& name_of(size_t parameter) const { return replica_.trainable()[parameter].name; }

  NamedTensors named(const std::vector<at::Tensor>& tensors, const std::string& suffix) const {
    NamedTensors all;
    for (size_t i = 0; i < tensors.size(); ++i) all.emplace_back(name_of(i) + suffix, tensors[i]);
    return all;
  }

  std::vector<Parameter> slices_of_parameters() const {
    std::vector<Parameter> slices;
    for (const Slice& slice : slices_) {
      const at::Tensor& shard = shards_->own()[slice.buffer];
      const at::Tensor mine = shard.narrow(0, slice.in_shard, slice.count);
      mine.mutable_grad() = shard.grad().narrow(0, slice.in_shard, slice.count);
      slices.push_back({name_of(slice.parameter), mine});
    }
    return slices;
  }

  std::vector<int64_t> dimensions_of_slices() const {
    std::vector<int64_t> dimensions;
    for (const Slice& slice : slices_) dimensions.push_back(tensors_[slice.parameter].dim());
    return dimensions;
  }

  at::Tensor state_of(const Slice& slice, Slot slot) const {
    const NamedTensors state = optimizer_->state();
    const at::Tensor* found = find(state, state_name(name_of(slice.parameter), slot));
    return found ? *found : at::Tensor();
  }

  std::vector<at::Tensor> state_shards(Slot slot) const {
    std::vector<at::Tensor> shards;
    for (const at::Tensor& shard : shards_->own()) shards.push_back(at::zeros_like(shard));
    for (const Slice& slice : slices_)
      shards[slice.buffer].narrow(0, slice.in_shard, slice.count).copy_(state_of(slice, slot));
    return shards;
  }

  // Loads a tensor of the optimizer state. value: the tensor for a whole parameter; name: its name. Copies the part of
  // `value` that belongs to `slice`, in the memory order of the parameter's strides. Does nothing if `slice` is not a
  // slice of this parameter.
  void load_slice(const Slice& slice, const std::string& name, const at::Tensor& value) const {
    const auto [parameter, slot] = split_state_name(name);
    if (parameter != name_of(slice.parameter)) return;
    if (slot == Slot::step) return void(state_of(slice, *slot).copy_(value));
    const Flat one({tensors_[slice.parameter]});
    at::Tensor(one.views()[0]).copy_(value);
    state_of(slice, *slot).copy_(one.buffers()[0].narrow(0, slice.in_parameter, slice.count));
  }

  const Workload& workload_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  Replica replica_;
  std::optional<double> clip_norm_;
  std::vector<at::Tensor> tensors_, buffers_;
  std::optional<Shards> shards_;  // flat buffers and shards, created after rank 0's values have been broadcast
  std::vector<Slice> slices_;     // this rank's slices: the parts of parameters in its shards
  std::vector<bool> used_;
  std::optional<Optimizer> optimizer_;  // the optimizer; it has state only for this rank's slices
};

const RegisterStrategy zero1{
    {.name = "zero1",
     .summary = "ddp with sharded optimizer state: each rank steps its own shard (ZeRO stage 1)",
     .parallelism = Parallelism::ranks,
     .gradient = Gradient::mean_of_means,
     .buffers = Buffers::rank0,
     .make = make<Zero1>,
     .traffic = zero1_traffic}};

}  // namespace
}  // namespace dpbench
