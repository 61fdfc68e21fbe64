// "zero1": the optimizer's state in pieces, one a rank (ZeRO stage 1). Gradients are reduced into pieces, each rank steps its
// own, and the parameters are gathered again. Piece r is the r-th part of all parameters laid end to end, padded to the world.
#include <algorithm>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "strategies/broadcast.h"
#include "strategies/compat.h"
#include "strategies/flat.h"
#include "strategies/same_model.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

class Zero1 : public Strategy {
 public:
  explicit Zero1(const Setup& setup)
      : workload_(setup.workload),
        group_(setup.group),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        clip_norm_(setup.clip_norm),
        tensors_(replica_.trainable_tensors("zero1")),
        buffers_(replica_.buffer_list()),
        parameters_(tensors_, setup.group->getSize()),
        gradients_(tensors_, setup.group->getSize()) {
    require_same_model(*group_, replica_);
    broadcast_from(0, group_, replica_.detached());
    parameters_.adopt(tensors_);
    note_what_is_used();
    for (const at::Tensor& buffer : parameters_.buffers()) {
      pieces_.push_back(piece_of(buffer).clone());
      pieces_.back().mutable_grad() = at::zeros_like(pieces_.back());
    }
    cut_slices();
    optimizer_.emplace(workload_.optimizer(), slices_of_parameters());
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty()) throw std::runtime_error("zero1: this rank has no rows in step " + std::to_string(step));
    clear_gradients();
    phases.enter(Phase::communication);
    if (!buffers_.empty()) broadcast_from(0, group_, buffers_);
    const StepResult result = replica_.passes(workload_, step, micro, phases);
    refuse_unused();
    const at::NoGradGuard no_grad;
    phases.enter(Phase::communication);
    reduce_into_pieces();
    if (clip_norm_) clip();
    phases.enter(Phase::optimizer);
    optimizer_->step();
    phases.enter(Phase::communication);
    gather_parameters();
    return result;
  }

  at::Tensor forward(const Batch& mine) override { return replica_.evaluate(mine); }
  NamedTensors parameters() override { return replica_.parameters(); }
  NamedTensors buffers() override { return replica_.buffers(); }
  NamedTensors gradients() override {
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& piece : pieces_) pieces.push_back(piece.grad());
    return whole(pieces, "");
  }
  NamedTensors state() override {
    NamedTensors all;
    if (workload_.optimizer().kind != OptimizerSpec::Kind::adam) return all;
    for (const std::string slot : {"momentum", "variance"})
      for (auto& named : whole(state_pieces(slot), "." + slot)) all.push_back(std::move(named));
    const at::Tensor counts = step_counts();
    for (size_t i = 0; i < tensors_.size(); ++i)
      all.emplace_back(replica_.trainable()[i].name + ".step", counts[static_cast<int64_t>(i)]);
    return all;
  }

  void load(const Snapshot& snapshot) override {
    load_into(parameters(), snapshot.parameters, "parameter");
    load_into(buffers(), snapshot.buffers, "buffer");
    const at::NoGradGuard no_grad;
    for (size_t b = 0; b < pieces_.size(); ++b) pieces_[b].copy_(piece_of(parameters_.buffers()[b]));
    NamedTensors wanted = state();  // gathered copies
    load_into(wanted, snapshot.state, "optimizer state");
    for (const Slice& slice : slices_)
      for (const auto& [name, value] : wanted) take_slice(slice, name, value);
  }

 private:
  // What this rank's piece has of one parameter.
  struct Slice {
    size_t parameter, buffer;
    int64_t in_parameter, in_piece, count;
  };

  // Gradients live in one buffer from the start, so a missing one shows only here.
  void note_what_is_used() {
    used_.assign(tensors_.size(), false);
    for (size_t i = 0; i < tensors_.size(); ++i)
      tensors_[i].register_hook([this, i](const at::Tensor&) { used_[i] = true; });
  }

  void clear_gradients() {
    const at::NoGradGuard no_grad;
    used_.assign(tensors_.size(), false);
    for (at::Tensor buffer : gradients_.buffers()) buffer.zero_();
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].mutable_grad() = gradients_.views()[i];
  }

  void refuse_unused() const {
    std::string names;
    for (size_t i = 0; i < used_.size(); ++i)
      if (!used_[i]) names += (names.empty() ? "" : ", ") + replica_.trainable()[i].name;
    if (!names.empty())
      throw std::runtime_error("zero1: this rank's loss did not use every parameter (unused: " + names +
                               "); strategy ddp has find_unused for that");
  }

  at::Tensor piece_of(const at::Tensor& buffer) const {
    const int64_t size = buffer.numel() / group_->getSize();
    return buffer.narrow(0, group_->getRank() * size, size);
  }

  void reduce_into_pieces() {
    const double share = 1.0 / static_cast<double>(group_->getSize());
    for (size_t b = 0; b < pieces_.size(); ++b) {
      at::Tensor buffer = gradients_.buffers()[b], piece = pieces_[b].grad();
      buffer.mul_(share);  // before the sum, as the Reducer does
      reduce_scatter_flat(*group_, piece, buffer);
    }
  }

  // The norm of the whole gradient, of which each rank has a piece.
  void clip() {
    at::Tensor squares = at::zeros({1}, at::TensorOptions().dtype(at::kDouble).device(replica_.device()));
    for (const at::Tensor& piece : pieces_) squares += piece.grad().to(at::kDouble).square().sum();
    std::vector<at::Tensor> sum = {squares};
    group_->allreduce(sum)->wait();
    const at::Tensor factor = (*clip_norm_ / (sum[0].sqrt() + 1e-6)).clamp_max(1.0);
    for (at::Tensor& piece : pieces_) piece.mutable_grad().mul_(factor.to(piece.scalar_type()));
  }

  void gather_parameters() {
    for (size_t b = 0; b < pieces_.size(); ++b) {
      at::Tensor buffer = parameters_.buffers()[b];
      allgather_flat(*group_, buffer, pieces_[b]);
    }
  }

  // Gathers the pieces and cuts them into parameters again.
  NamedTensors whole(const std::vector<at::Tensor>& pieces, const std::string& suffix) const {
    const Flat all(tensors_, group_->getSize());
    for (size_t b = 0; b < pieces.size(); ++b) {
      at::Tensor buffer = all.buffers()[b], piece = pieces[b];
      allgather_flat(*group_, buffer, piece);
    }
    NamedTensors named;
    for (size_t i = 0; i < tensors_.size(); ++i) named.emplace_back(replica_.trainable()[i].name + suffix, all.views()[i]);
    return named;
  }

  // Parameter by parameter, not the piece as one: a fused kernel rounds the rest of a tensor that fills no vector otherwise.
  void cut_slices() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const size_t b = buffer_of(tensors_[i]);
      const int64_t size = pieces_[b].numel(), first = parameters_.views()[i].storage_offset();
      const int64_t from = std::max(first, group_->getRank() * size);
      const int64_t to = std::min(first + tensors_[i].numel(), (group_->getRank() + 1) * size);
      if (from < to) slices_.push_back({i, b, from - first, from - group_->getRank() * size, to - from});
    }
  }

  std::vector<Parameter> slices_of_parameters() const {
    std::vector<Parameter> slices;
    for (const Slice& slice : slices_) {
      const at::Tensor& piece = pieces_[slice.buffer];
      const at::Tensor mine = piece.narrow(0, slice.in_piece, slice.count);
      mine.mutable_grad() = piece.grad().narrow(0, slice.in_piece, slice.count);
      slices.push_back({replica_.trainable()[slice.parameter].name, mine});
    }
    return slices;
  }

  at::Tensor state_of(const Slice& slice, const std::string& slot) const {
    const std::string wanted = replica_.trainable()[slice.parameter].name + "." + slot;
    for (const auto& [name, tensor] : optimizer_->state())
      if (name == wanted) return tensor;
    return {};
  }

  std::vector<at::Tensor> state_pieces(const std::string& slot) const {
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& piece : pieces_) pieces.push_back(at::zeros_like(piece));
    for (const Slice& slice : slices_)
      pieces[slice.buffer].narrow(0, slice.in_piece, slice.count).copy_(state_of(slice, slot));
    return pieces;
  }

  // Of every parameter, from whoever has some of it.
  at::Tensor step_counts() const {
    at::Tensor counts = at::zeros({static_cast<int64_t>(tensors_.size())},
                                  at::TensorOptions().dtype(at::kFloat).device(replica_.device()));
    for (const Slice& slice : slices_) counts[static_cast<int64_t>(slice.parameter)].copy_(state_of(slice, "step"));
    c10d::AllreduceOptions largest;
    largest.reduceOp = c10d::ReduceOp::MAX;
    std::vector<at::Tensor> all = {counts};
    group_->allreduce(all, largest)->wait();
    return all[0];
  }

  // In the order in which the parameter lies in its buffer, which its strides tell.
  void take_slice(const Slice& slice, const std::string& name, const at::Tensor& value) const {
    const std::string& parameter = replica_.trainable()[slice.parameter].name;
    if (name == parameter + ".step") return void(state_of(slice, "step").copy_(value));
    for (const std::string slot : {"momentum", "variance"}) {
      if (name != parameter + "." + slot) continue;
      const Flat one({tensors_[slice.parameter]});
      at::Tensor(one.views()[0]).copy_(value);
      state_of(slice, slot).copy_(one.buffers()[0].narrow(0, slice.in_parameter, slice.count));
    }
  }

  size_t buffer_of(const at::Tensor& tensor) const {
    for (size_t b = 0; b < pieces_.size(); ++b)
      if (pieces_[b].scalar_type() == tensor.scalar_type()) return b;
    return 0;
  }

  const Workload& workload_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  Replica replica_;
  std::optional<double> clip_norm_;
  std::vector<at::Tensor> tensors_, buffers_;
  Flat parameters_, gradients_;       // parameters and gradients live here; every rank has all of them
  std::vector<at::Tensor> pieces_;    // of this rank, one a dtype: what its optimizer steps, and its gradient
  std::vector<Slice> slices_;
  std::vector<bool> used_;
  std::optional<Optimizer> optimizer_;  // its state is that of the pieces alone
};

const RegisterStrategy zero1{{.name = "zero1",
                              .summary = "as ddp, with the optimizer's state in pieces: each rank steps its own (ZeRO stage 1)",
                              .parallelism = Parallelism::ranks,
                              .gradient = Gradient::mean_of_means,
                              .buffers = Buffers::rank0,
                              .make = make<Zero1>}};

}  // namespace
}  // namespace dpbench
