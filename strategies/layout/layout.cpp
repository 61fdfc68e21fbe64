#include "strategies/layout/layout.h"

#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/activation.h"
#include "strategies/api/parts/broadcast.h"
#include "strategies/experts/exchange.h"
#include "strategies/parts/share.h"
#include "workloads/base/error.h"

namespace dpbench::layout {
namespace {

// Returns the optimizer for the parts of parameters that this rank stores.
Optimizer optimizer_of(const RankModel& model, const OptimizerSpec& spec) {
  std::vector<Parameter> stepped;
  std::vector<int64_t> dimensions;
  for (const Held& one : model.trainable()) {
    // Skips a parameter of which this rank stores no rows.
    if (one.stored.numel() == 0 && one.placed->tensor.numel() > 0) continue;
    stepped.push_back({one.name(), one.stored});
    dimensions.push_back(static_cast<int64_t>(one.placed->sizes.size()));
  }
  return {spec, stepped, dimensions};
}

// Gives parameters and samples their types (see strategies/api/parts/activation.h). Each rank of cp has its own tokens
// and each rank of ep its own samples. So a rank's gradient of an uncut parameter covers only these tokens or samples.
void set_types(const RankModel& model, const std::vector<Part>& parts) {
  using enum Spread;
  const Axes& axes = model.axes;
  for (const Held& one : model.own) {
    const at::Tensor& tensor = one.placed->tensor;
    const auto cut = model.tensors.cut_dim(one.name());
    set_spread(tensor, axes.tp, cut ? varying : model.is_partial(one) ? replicated : invariant, cut);
    set_spread(tensor, axes.cp, replicated);
    set_spread(tensor, axes.ep, model.is_expert(one) ? varying : replicated);
  }
  for (const Part& part : parts)
    for (const at::Tensor& tensor : {part.batch.input, part.batch.target})
      for (const Axis* axis : {&axes.cp, &axes.ep})
        if (tensor.defined()) set_spread(tensor, *axis, varying);
}

}  // namespace

Layout::Layout(const Setup& setup, Options options)
    : workload_(setup.workload),
      options_(effective_on(setup.mesh.shape(), std::move(options))),
      replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
      clip_norm_(setup.clip_norm),
      schedules_(options_.pipeline, setup.mesh.axis("pp").size),
      model_(setup.mesh, options_, workload_, replica_, schedules_.rank_of_stages(), setup.allows_idle),
      optimizer_(optimizer_of(model_, workload_.optimizer())),
      state_(model_, optimizer_, workload_.optimizer()),
      passes_(options_.name, replica_, model_.stages, axes_.pp, {axes_.cp, axes_.tp, axes_.ep},
              options_.pipeline.poison, model_.units ? &*model_.units : nullptr,
              [this](const at::Tensor& output, const Part& part) {
                const at::Tensor loss = loss_of(output, part.batch.target, part.split, micros_);
                for (const Axis* axis : {&axes_.cp, &axes_.tp})
                  require_spread("backward() of the loss", loss, *axis, Spread::invariant);
                return part.share == 1 ? loss : loss * part.share;
              }) {
  schedules_.require_same_on_all_ranks(axes_.pp, replica_.device());
}

StepResult Layout::step(int64_t step, std::span<const Batch> micro, Phases& phases) {
  if (micro.empty())
    throw std::runtime_error(options_.name + ": this rank has no samples in step " + std::to_string(step));
  model_.clear_gradients();
  share_buffers(phases);
  phases.enter(Phase::data);
  micros_ = micro.size();
  std::vector<Part> parts =
      parts_of(micro, model_, workload_, [&](const Batch& batch) { return exchange(batch, &phases); });
  const Batch last = parts.back().batch;
  const pipeline::Schedule& schedule = schedules_.of(static_cast<int>(parts.size()));
  StepResult result;
  {
    const TypedPass typed;
    set_types(model_, parts);
    result = passes_.run(step, std::move(parts), schedule, phases);
  }
  const at::NoGradGuard no_grad;
  phases.enter(Phase::communication);
  if (model_.units) model_.units->end_step(phases), take_gradients(model_);
  sum_partial();
  sum_tokens();
  sum_tied();
  average_over_replicas();
  average_over_experts();
  if (options_.tensor.verify) verify(model_);
  if (clip_norm_) clip();
  result = shared(std::move(result), last);
  phases.enter(Phase::optimizer);
  optimizer_.step(step);
  if (!options_.sharded || options_.sharded->stage == fsdp::Stage::fsdp) return result;
  phases.enter(Phase::communication);
  model_.units->update();
  return result;
}

void Layout::share_buffers(Phases& phases) const {
  phases.enter(Phase::communication);
  const auto buffers = replica_.buffer_list();
  if (buffers.empty()) return;
  for (const Axis* axis : {&axes_.replicas, &axes_.shard, &axes_.ep})
    if (axis->size > 1) broadcast_from(0, axis->group, buffers);
}

// Completes a step's result: sends the last stage's loss to all ranks of the replica. The output is sent only if the
// caller needs it and calls gather_output().
StepResult Layout::shared(StepResult result, const Batch& last) {
  if (axes_.cp.size == 1 && axes_.pp.size == 1 && axes_.tp.size == 1) return result;
  const int root = model_.stages.back().rank;
  result.loss = passes_.share("the loss", result.loss, root);
  result.gather_output = [this, root, split = exchange(last, nullptr), piece = std::move(result.output)] {
    const at::NoGradGuard no_grad;
    const bool joins = split.cuts_output() && axes_.pp.rank == root;
    return passes_.share("the output", joins ? workload_.joined_output(piece, split) : piece, root);
  };
  result.output.reset();
  return result;
}

at::Tensor Layout::forward(const Batch& mine) {
  const at::NoGradGuard no_grad;
  const auto& model = replica_.shared_model();
  model->eval();
  at::Tensor output;
  for (int c = 0; c < axes_.cp.size; ++c)
    for (int p = 0; p < axes_.pp.size; ++p)
      for (int t = 0; t < axes_.tp.size; ++t) {
        const auto shared = [&](const at::Tensor& tensor) {
          at::Tensor one = tensor.defined() ? tensor.to(replica_.device()) : tensor;
          for (const auto& [axis, rank] : {std::pair{&axes_.cp, c}, {&axes_.pp, p}, {&axes_.tp, t}})
            one = share(one, rank, *axis, replica_.device());
          return one;
        };
        const at::Tensor found = evaluate({shared(mine.input), {}, shared(mine.ids)});
        if (c == axes_.cp.rank && p == axes_.pp.rank && t == axes_.tp.rank) output = found;
      }
  model->train();
  return output;
}

// Evaluates the model on samples that must be equal on all ranks that compute one replica. Collective among these
// ranks.
at::Tensor Layout::evaluate(const Batch& batch) {
  const Part part{.batch = replica_.to_device(batch), .split = exchange(batch, nullptr)};
  const std::vector<pipeline::Stage>& stages = model_.stages;
  at::Tensor x = part.batch.input;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].rank == axes_.pp.rank) x = passes_.evaluate(s, x, part);
    const bool moves = s + 1 == stages.size() || stages[s + 1].rank != stages[s].rank;
    if (moves) x = passes_.share("the output of stage " + std::to_string(s), x, stages[s].rank);
  }
  if (model_.units) model_.units->end_evaluation();
  return part.split.cuts_output() ? workload_.joined_output(x, part.split) : x;
}

void Layout::load(const Snapshot& snapshot) {
  // The snapshot is first loaded into copies, so that a snapshot that does not fit changes nothing.
  const auto copies = [](NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
    return tensors;
  };
  Snapshot wanted;
  wanted.parameters = copies(parameters());
  wanted.state = copies(state());
  wanted.buffers = copies(buffers());
  load_into(wanted.parameters, snapshot.parameters, "parameter");
  load_into(wanted.state, snapshot.state, "optimizer state");
  load_into(wanted.buffers, snapshot.buffers, "buffer");
  state_.set(wanted);
}

std::map<std::string, std::vector<double>> Layout::figures() {
  const auto peak = model_.units ? static_cast<double>(model_.units->take_peak()) : 0;
  if (peak == 0) return {};  // nothing to report, because no parameters were gathered
  return {{"gathered_parameters_peak_bytes", {peak}}};
}

ModelSplit Layout::exchange(const Batch& batch, Phases* phases) const {
  ModelSplit split;
  int64_t tokens = batch.input.dim() > 1 ? batch.input.size(1) : 1;
  // A model that generates text may get a prompt with fewer tokens than the axis cp has ranks. The sequence is then not
  // cut, and each rank has all tokens.
  if (axes_.cp.size > 1 && tokens >= axes_.cp.size) {
    split.sequence = make_exchange(options_.context, tokens, phases);
    tokens = 0;
    for (const Piece& piece : split.sequence->tokens()) tokens += piece.size;
  }
  if (axes_.ep.size > 1) split.experts = make_expert_exchange(phases);
  if (axes_.tp.size == 1) return split;
  tensor::Options options = options_.tensor;
  // An evaluation keeps no activations, so cutting them along the sequence would save no memory.
  if (!phases) options.sequence = false;
  if (options.sequence && tokens < axes_.tp.size)
    throw UsageError(options_.name + ".sequence=on: a sequence of " + std::to_string(tokens) + " tokens for " +
                     std::to_string(axes_.tp.size) + " ranks");
  split.tensor = make_exchange(options, tokens, phases);
  return split;
}

std::shared_ptr<const SequenceSplit> Layout::make_exchange(const context::Options& options, int64_t tokens,
                                                           Phases* phases) const {
  return std::make_shared<context::Exchange>(axes_.cp, options, tokens, phases);
}

std::shared_ptr<const TensorSplit> Layout::make_exchange(const tensor::Options& options, int64_t tokens,
                                                         Phases* phases) const {
  return std::make_shared<tensor::Exchange>(axes_.tp, options, tokens, phases);
}

std::shared_ptr<const ExpertSplit> Layout::make_expert_exchange(Phases* phases) const {
  return std::make_shared<experts::Exchange>(axes_.ep, options_.name, replica_.device(), phases);
}

at::Tensor Layout::loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                           size_t micros) const {
  return micro_loss(workload_, output, target, micros, split);
}

}  // namespace dpbench::layout
