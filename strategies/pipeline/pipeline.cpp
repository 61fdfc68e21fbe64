// The strategy "pp": pipeline parallelism. Each rank has some of the model's blocks; a schedule says in which order it
// runs their forward and backward passes, and when activations and gradients travel.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"
#include "strategies/exchange/broadcast.h"
#include "strategies/parts/replica.h"
#include "strategies/parts/same_model.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/pipeline/links.h"
#include "strategies/pipeline/options.h"
#include "strategies/pipeline/owned.h"
#include "strategies/pipeline/stages.h"

namespace dpbench::pipeline {
namespace {

constexpr int first_tie_tag = 1 << 24;  // above the tags of activations and gradients

// A micro-batch of the pipeline: a part of one of the step's micro-batches.
struct Part {
  Batch batch;
  double share = 1;  // of its loss in the loss of the micro-batch
};

// What a stage keeps of a micro-batch between its forward and its backward pass.
struct Live {
  at::Tensor input, output, loss;
};

class Pipeline : public Strategy {
 public:
  explicit Pipeline(const Setup& setup)
      : workload_(setup.workload),
        options_(options_of(setup.params)),
        axis_(setup.mesh.axis("pp")),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        clip_norm_(setup.clip_norm),
        schedules_(options_, axis_.size),
        links_(axis_, setup.devices.at(0), options_.poison) {
    replica_.trainable_tensors("pp");  // throws if nothing is trainable
    if (axis_.size > 1) {
      require_same_model(*axis_.group, replica_);
      broadcast_from(0, axis_.group, replica_.detached());
    }
    const Model& model = *replica_.shared_model();
    stages_ = cut_stages(model, schedules_.rank_of_stages(), options_.blocks);
    parameters_ = placed_parameters(model, stages_);
    buffers_ = placed_buffers(model, stages_);
    if (axis_.size == 1) options_.microbatches = 1;  // nothing to overlap
    refuse_parts_of_batch_statistics();
    for (const Placed& one : parameters_)
      wholes_.push_back({.sizes = one.tensor.sizes().vec(), .dtype = one.tensor.scalar_type()});
    keep_own();
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty()) throw std::runtime_error("pp: no samples in step " + std::to_string(step));
    for (const auto& [name, tensor] : own_) tensor.mutable_grad().reset();
    phases.enter(Phase::data);
    parts_ = parts_of(micro);
    step_ = step, micros_ = micro.size();
    const Schedule& schedule = schedules_.of(static_cast<int>(parts_.size()));
    live_.assign(stages_.size() * parts_.size(), {});
    outputs_.assign(parts_.size(), {});
    losses_.assign(parts_.size(), {});
    for (const Action& action : schedule.ranks[static_cast<size_t>(axis_.rank)]) run(action, phases);
    phases.enter(Phase::communication);
    for (Transfer& sent : sent_) sent.wait();
    sent_.clear();
    sum_tied();
    if (clip_norm_) clip();
    StepResult result = shared_result();
    phases.enter(Phase::optimizer);
    optimizer_->step(step);
    return result;
  }

  // Each rank's samples go through the whole pipeline, one rank after the other.
  at::Tensor forward(const Batch& mine) override {
    const at::NoGradGuard no_grad;
    const auto& model = replica_.shared_model();
    model->eval();
    at::Tensor output;
    for (int rank = 0; rank < axis_.size; ++rank) {
      const Batch batch =
          replica_.to_device({links_.share(on_device(mine.input), rank), {}, links_.share(on_device(mine.ids), rank)});
      at::Tensor x = batch.input;
      for (size_t s = 0; s < stages_.size(); ++s) {
        if (stages_[s].rank == axis_.rank) x = through(s, x, /*step=*/0, batch.ids);
        x = links_.share(x, stages_[s].rank);
      }
      if (rank == axis_.rank) output = x;
    }
    model->train();
    return output;
  }

  NamedTensors parameters() override {
    const auto found = whole([&](const Placed& one) { return one.tensor; });
    NamedTensors all;
    for (const auto& [name, tensor] : replica_.parameters()) {
      const auto same =
          std::ranges::find_if(parameters_, [&](const Placed& one) { return one.tensor.is_same(tensor); });
      all.emplace_back(name, found[static_cast<size_t>(same - parameters_.begin())]);
    }
    return all;
  }

  NamedTensors gradients() override {
    return trained(whole([](const Placed& one) { return one.tensor.grad(); }), "");
  }

  NamedTensors buffers() override {
    std::vector<int> owners;
    std::vector<Whole> wholes;
    for (const Placed& one : buffers_) {
      owners.push_back(owner_of(one));
      wholes.push_back({.sizes = one.tensor.sizes().vec(), .dtype = one.tensor.scalar_type()});
    }
    const auto found =
        from_owners(axis_, replica_.device(), owners, wholes, [&](size_t i) { return buffers_[i].tensor; });
    NamedTensors all;
    for (size_t i = 0; i < buffers_.size(); ++i) all.emplace_back(buffers_[i].name, found[i]);
    return all;
  }

  NamedTensors state() override {
    NamedTensors all;
    const NamedTensors own = optimizer_->state();
    for (const std::string& slot : state_slots(workload_.optimizer())) {
      const bool counts = slot == "step";
      const auto mine = [&](const Placed& one) {
        const at::Tensor* found = find(own, one.name + "." + slot);
        return found ? *found : at::Tensor();
      };
      for (auto& one : trained(whole(mine, counts), "." + slot)) all.push_back(std::move(one));
    }
    return all;
  }

  void load(const Snapshot& snapshot) override {
    const NamedTensors wanted = parameters(), state_wanted = state(), buffers_wanted = buffers();  // copies
    load_into(wanted, snapshot.parameters, "parameter");
    load_into(state_wanted, snapshot.state, "optimizer state");
    load_into(buffers_wanted, snapshot.buffers, "buffer");
    const at::NoGradGuard no_grad;
    for (const Placed& one : parameters_)
      if (is_mine(one)) one.tensor.detach().copy_(*find(wanted, one.name));
    for (const Placed& one : buffers_) one.tensor.detach().copy_(*find(buffers_wanted, one.name));
    for (auto& [name, tensor] : optimizer_->state())
      if (const at::Tensor* value = find(state_wanted, name)) tensor.copy_(*value);
  }

 private:
  int owner_of(const Placed& one) const { return stages_[static_cast<size_t>(one.stages.front())].rank; }

  bool is_mine(const Placed& one) const {
    return std::ranges::any_of(one.stages, [&](int s) { return stages_[static_cast<size_t>(s)].rank == axis_.rank; });
  }

  void refuse_parts_of_batch_statistics() const {
    const auto statistic =
        std::ranges::find_if(buffers_, [](const Placed& one) { return one.tensor.is_floating_point(); });
    if (options_.microbatches > 1 && statistic != buffers_.end())
      throw UsageError("pp.microbatches=" + std::to_string(options_.microbatches) + ": the model's " + statistic->name +
                       " may be a statistic of a whole micro-batch, as BatchNorm's is. Use --accumulate instead");
  }

  // Frees the parameters of other ranks' stages. The optimizer steps the others.
  void keep_own() {
    for (const Placed& one : parameters_) {
      if (!is_mine(one))
        one.tensor.set_data(at::empty({0}, one.tensor.options()));
      else if (one.tensor.requires_grad())
        own_.push_back({one.name, one.tensor});
    }
    optimizer_.emplace(workload_.optimizer(), own_);
  }

  std::vector<Part> parts_of(std::span<const Batch> micro) const {
    std::vector<Part> parts;
    for (const Batch& whole : micro) {
      const Batch batch = replica_.to_device(whole);
      const int64_t rows = std::max<int64_t>(1, (batch.rows() + options_.microbatches - 1) / options_.microbatches);
      const auto terms = static_cast<double>(workload_.loss_terms(batch));
      for (int64_t first = 0; first < batch.rows(); first += rows) {
        const int64_t count = std::min(rows, batch.rows() - first);
        const auto cut = [&](const at::Tensor& tensor) { return tensor.narrow(0, first, count); };
        Part part{.batch = count == batch.rows() ? batch : Batch{cut(batch.input), cut(batch.target), cut(batch.ids)}};
        if (count < batch.rows() && !workload_.sum_loss())
          part.share = static_cast<double>(workload_.loss_terms(part.batch)) / terms;
        parts.push_back(std::move(part));
      }
    }
    return parts;
  }

  Live& live(int stage, int microbatch) {
    return live_[static_cast<size_t>(stage) * parts_.size() + static_cast<size_t>(microbatch)];
  }

  void run(const Action& action, Phases& phases) {
    try {
      execute(action, phases);
    } catch (const UsageError&) {
      throw;
    } catch (const std::exception& error) {
      throw std::runtime_error("pp: rank " + std::to_string(axis_.rank) + ", action " + described(action) + ": " +
                               error.what());
    }
  }

  void execute(const Action& action, Phases& phases) {
    switch (action.kind) {
      case Kind::forward:
        return forward_pass(action.stage, action.microbatch, phases);
      case Kind::full_backward:
        return backward_pass(action.stage, action.microbatch, phases);
      case Kind::send_activation:
      case Kind::receive_activation:
      case Kind::send_gradient:
      case Kind::receive_gradient:
        phases.enter(Phase::communication);
        return transfer(action);
      default:
        throw std::logic_error("not run");
    }
  }

  void transfer(const Action& action) {
    const Channel channel = channel_of(action);
    const int from = stages_[static_cast<size_t>(channel.from)].rank,
              to = stages_[static_cast<size_t>(channel.to)].rank;
    const bool activation = channel.send == Kind::send_activation;
    const int tag = (action.microbatch * static_cast<int>(stages_.size()) + channel.from) * 2 + (activation ? 0 : 1);
    const Cargo cargo{
        .stage = channel.from, .training = true, .rows = parts_[static_cast<size_t>(action.microbatch)].batch.rows()};
    Live& here = live(action.stage, action.microbatch);
    if (action.kind == Kind::send_activation)
      sent_.push_back(links_.send(here.output, to, tag, cargo));
    else if (action.kind == Kind::receive_activation)
      arriving_[{action.stage, action.microbatch}] = links_.receive(from, tag, cargo);
    else if (action.kind == Kind::send_gradient)
      sent_.push_back(links_.send_like(slope_of(here.input), to, tag));
    else
      arriving_[{action.stage, action.microbatch}] = links_.receive_like(here.output, from, tag);
    if (action.kind == Kind::send_gradient) here = {};
  }

  // Returns what has arrived for a stage, or the tensor of the neighbouring stage if it is on this rank.
  at::Tensor arrived(int stage, int microbatch, const at::Tensor& local) {
    const auto there = arriving_.find({stage, microbatch});
    if (there == arriving_.end()) return local;
    const at::Tensor tensor = there->second.wait();
    arriving_.erase(there);
    return tensor;
  }

  at::Tensor through(size_t stage, const at::Tensor& x, int64_t step, const at::Tensor& ids) const {
    const Stage& span = stages_[stage];
    if (stage == 0 && replica_.shared_model()->blocks().empty()) return replica_.forward(step, {x, {}, ids});
    return span.first == span.last ? x : replica_.forward_span(span.first, span.last, x, step, ids);
  }

  void forward_pass(int stage, int microbatch, Phases& phases) {
    const Part& part = parts_[static_cast<size_t>(microbatch)];
    Live& here = live(stage, microbatch);
    here.input = part.batch.input;
    if (stage > 0) {
      phases.enter(Phase::waiting);
      here.input = arrived(stage, microbatch, live(stage - 1, microbatch).output).detach();
      if (here.input.is_floating_point()) here.input.requires_grad_();
    }
    phases.enter(Phase::forward);
    here.output = through(static_cast<size_t>(stage), here.input, step_, part.batch.ids);
    if (stage + 1 < static_cast<int>(stages_.size())) return;
    here.loss = micro_loss(workload_, here.output, part.batch.target, micros_);
    if (part.share != 1) here.loss = here.loss * part.share;
    outputs_[static_cast<size_t>(microbatch)] = here.output.detach();
    losses_[static_cast<size_t>(microbatch)] = here.loss.detach();
  }

  void backward_pass(int stage, int microbatch, Phases& phases) {
    Live& here = live(stage, microbatch);
    const bool last = stage + 1 == static_cast<int>(stages_.size());
    phases.enter(Phase::waiting);
    at::Tensor slope;
    if (!last) {
      Live& next = live(stage + 1, microbatch);
      slope = arrived(stage, microbatch, next.input.defined() ? slope_of(next.input) : at::Tensor());
      if (stages_[static_cast<size_t>(stage) + 1].rank == axis_.rank) next = {};
    }
    phases.enter(Phase::backward);
    if (last)
      backward(here.loss);
    else if (here.output.requires_grad())
      backward(here.output, slope);
    here.output.reset(), here.loss.reset();
    if (stage == 0) here.input.reset();
  }

  // Returns the gradient by a stage's input: zeros if its output does not depend on it.
  static at::Tensor slope_of(const at::Tensor& input) {
    return input.grad().defined() ? input.grad() : at::zeros_like(input);
  }

  // Sums the gradients of each tied parameter over its ranks, in the order of its stages.
  void sum_tied() {
    int index = 0;
    for (const Placed& one : parameters_) {
      const int tag = first_tie_tag + index++;
      if (!one.tied() || !one.tensor.requires_grad() || !is_mine(one)) continue;
      std::vector<int> ranks;
      for (const int s : one.stages)
        if (const int rank = stages_[static_cast<size_t>(s)].rank; std::ranges::count(ranks, rank) == 0)
          ranks.push_back(rank);
      if (ranks.size() < 2) continue;
      const bool used = one.tensor.grad().defined();
      // The last element counts the ranks that used the parameter.
      at::Tensor sum = at::cat({(used ? one.tensor.grad() : at::zeros_like(one.tensor)).detach().reshape({-1}),
                                at::full({1}, used ? 1 : 0, one.tensor.options().requires_grad(false))});
      if (ranks.front() == axis_.rank) {
        for (size_t i = 1; i < ranks.size(); ++i) sum += links_.receive_like(sum, ranks[i], tag).wait();
        for (size_t i = 1; i < ranks.size(); ++i) links_.send_like(sum, ranks[i], tag).wait();
      } else {
        links_.send_like(sum, ranks.front(), tag).wait();
        sum = links_.receive_like(sum, ranks.front(), tag).wait();
      }
      const at::Tensor gradient = sum.narrow(0, 0, one.tensor.numel()).view(one.tensor.sizes());
      if (sum[-1].item<double>() == 0)
        one.tensor.mutable_grad().reset();
      else if (used)
        one.tensor.mutable_grad().detach().copy_(gradient);
      else
        one.tensor.mutable_grad() = gradient.clone();
    }
  }

  void clip() {
    std::vector<at::Tensor> counted, copies;
    for (const Placed& one : parameters_) {
      if (!is_mine(one) || !one.tensor.grad().defined()) continue;
      (owner_of(one) == axis_.rank ? counted : copies).push_back(one.tensor.grad());
    }
    clip_parts(counted, *clip_norm_, replica_.device(), axis_.group.get(), copies);
  }

  // Returns the loss of the last stage, on every rank. The output follows if it is asked for.
  StepResult shared_result() {
    StepResult result;
    const int last = stages_.back().rank;
    if (last == axis_.rank)
      for (size_t i = 0; i < parts_.size(); ++i) add_micro(result, outputs_[i], losses_[i]);
    result.loss = links_.share(result.loss, last);
    if (axis_.size > 1)
      result.gather_output = [this, last, output = std::move(result.output)] { return links_.share(output, last); };
    return result;
  }

  at::Tensor on_device(const at::Tensor& tensor) const { return tensor.to(replica_.device()); }

  // Returns a tensor for each entry of parameters_, on every rank. scalars: each is a single float32.
  std::vector<at::Tensor> whole(const std::function<at::Tensor(const Placed&)>& choose, bool scalars = false) const {
    std::vector<int> owners;
    for (const Placed& one : parameters_) owners.push_back(owner_of(one));
    const std::vector<Whole> counts(scalars ? parameters_.size() : 0, Whole{.sizes = {}, .dtype = at::kFloat});
    return from_owners(axis_, replica_.device(), owners, scalars ? counts : wholes_,
                       [&](size_t i) { return choose(parameters_[i]); });
  }

  // Keeps those of `tensors`, one for each entry of parameters_, that belong to trainable parameters.
  NamedTensors trained(const std::vector<at::Tensor>& tensors, const std::string& suffix) const {
    NamedTensors all;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].tensor.requires_grad()) all.emplace_back(parameters_[i].name + suffix, tensors[i]);
    return all;
  }

  const Workload& workload_;
  Options options_;
  Axis axis_;
  Replica replica_;
  std::optional<double> clip_norm_;
  Schedules schedules_;
  Links links_;
  std::vector<Stage> stages_;
  std::vector<Placed> parameters_, buffers_;
  std::vector<Whole> wholes_;   // of parameters_
  std::vector<Parameter> own_;  // trainable parameters of this rank's stages
  std::optional<Optimizer> optimizer_;

  // Of the step under way.
  int64_t step_ = 0;
  size_t micros_ = 1;
  std::vector<Part> parts_;
  std::vector<Live> live_;  // by stage, then by micro-batch
  std::vector<at::Tensor> outputs_, losses_;
  std::map<std::pair<int, int>, Transfer> arriving_;  // by stage and micro-batch
  std::vector<Transfer> sent_;
};

const RegisterStrategy pipeline_strategy{
    {.name = "pp",
     .summary = "pipeline: each rank has some of the model's blocks, micro-batches travel between them",
     .parallelism = Parallelism::ranks,
     .gradient = Gradient::mean_of_means,
     .buffers = Buffers::rank0,
     .axes = {"pp"},
     .params = parameters(),
     .settings = {.small_buckets = {{"poison", "on"}}},
     .make = make<Pipeline>,
     .collective_evaluation = true,
     .promise = [](StrategyInfo&, const Params& params) { options_of(params); },
     .variants = {{"gpipe", {{"schedule", "gpipe"}, {"poison", "on"}}},
                  {"interleaved", {{"schedule", "interleaved"}}}}}};

}  // namespace
}  // namespace dpbench::pipeline
