#include "strategies/layout/passes.h"

#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "strategies/api/backward.h"
#include "strategies/api/parts/activation.h"

namespace dpbench::layout {
namespace {

using pipeline::Action;
using pipeline::Cargo;
using pipeline::Channel;
using pipeline::Kind;
using pipeline::Stage;
using pipeline::Transfer;

// Returns the gradient of a pipeline stage's input, for the stage before; zeros if the stage's output does not depend
// on its input.
at::Tensor slope_of(const at::Tensor& input) { return input.grad().defined() ? input.grad() : at::zeros_like(input); }

}  // namespace

Passes::Passes(std::string owner, const Replica& replica, const std::vector<Stage>& stages, Axis axis,
               std::vector<Axis> typed, bool poison, fsdp::Units* units, Loss loss)
    : owner_(std::move(owner)),
      replica_(replica),
      stages_(stages),
      axis_(std::move(axis)),
      links_(axis_, replica.device(), poison, std::move(typed)),
      units_(units),
      loss_(std::move(loss)) {}

StepResult Passes::run(int64_t step, std::vector<Part> parts, const pipeline::Schedule& schedule, Phases& phases) {
  step_ = step;
  // Empties the two lists of transfers, because an earlier step may have thrown before it waited for them.
  sent_.clear();
  arriving_.clear();
  parts_ = std::move(parts);
  live_.assign(stages_.size() * parts_.size(), {});
  delayed_.assign(pipeline::splits_backward(schedule) ? live_.size() : 0, nullptr);
  results_.assign(parts_.size(), {});
  const auto during = [&](const Action& action, const auto& call) {
    if (axis_.size == 1) return call();
    const std::string name = described(action);
    phases.name_action(name);
    named([&] { return "action " + name; }, call);
  };
  for (const Action& action : schedule.ranks[static_cast<size_t>(axis_.rank)])
    during(action, [&] { execute(action, phases); });
  phases.enter(Phase::communication);
  for (auto& [action, transfer] : sent_) during(action, [&sent = transfer] { sent.wait(); });
  phases.name_action("");
  sent_.clear();
  StepResult result;
  if (rank_of(static_cast<int>(stages_.size()) - 1) == axis_.rank)
    for (StepResult& one : results_) add_micro(result, std::move(one.output), std::move(one.loss));
  results_.clear();
  return result;
}

void Passes::execute(const Action& action, Phases& phases) {
  switch (action.kind) {
    case Kind::forward:
      return forward(action, phases);
    case Kind::input_gradient:
    case Kind::full_backward:
      return backward(action, phases);
    case Kind::weight_gradient: {
      RECORD_USER_SCOPE(trace_name(step_, action));
      return weight_gradients(action.stage, action.microbatch, phases);
    }
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

void Passes::transfer(const Action& action) {
  RECORD_USER_SCOPE(trace_name(step_, action));
  const Channel channel = channel_of(action);
  const int from = rank_of(channel.from), to = rank_of(channel.to);
  const bool activation = channel.send == Kind::send_activation;
  const int tag = (action.microbatch * static_cast<int>(stages_.size()) + channel.from) * 2 + (activation ? 0 : 1);
  const Cargo cargo{
      .stage = channel.from, .training = true, .sizes = part(action.microbatch).batch.input.sizes().vec()};
  Live& here = live(action.stage, action.microbatch);
  if (action.kind == Kind::send_activation)
    sent_.emplace_back(action, links_.send(here.output, to, tag, cargo));
  else if (action.kind == Kind::receive_activation)
    arriving_[{action.stage, action.microbatch}] = links_.receive(from, tag, cargo);
  else if (action.kind == Kind::send_gradient)
    sent_.emplace_back(action, links_.send_like(slope_of(here.input()), to, tag));
  else
    arriving_[{action.stage, action.microbatch}] = links_.receive_like(here.output, from, tag);
  if (action.kind == Kind::send_gradient) here = {};
}

// Waits for the tensor that another rank sends to a pipeline stage, and returns it. Returns `local` if the neighbouring
// stage is on this rank and nothing was sent.
at::Tensor Passes::arrived(const Action& receive, const at::Tensor& local) {
  const auto there = arriving_.find({receive.stage, receive.microbatch});
  if (there == arriving_.end()) return local;
  RECORD_USER_SCOPE(trace_name(step_, receive));
  const at::Tensor tensor = there->second.wait();
  arriving_.erase(there);
  return tensor;
}

at::Tensor Passes::compute(size_t stage, const fsdp::Span& blocks, const at::Tensor& x, int64_t step,
                           const Part& part) const {
  const size_t count = replica_.shared_model()->blocks().size();
  // Runs the model's own forward() if the stage has all of the model's blocks, or if the model has no blocks.
  const bool whole = stage == 0 && blocks.first == 0 && blocks.last == count;
  if (whole) return replica_.forward(step, {x, {}, part.batch.ids}, part.split);
  if (blocks.first == blocks.last) return x;
  return replica_.forward_span(blocks.first, blocks.last, x, step, part.batch.ids, part.split);
}

size_t Passes::number_on_rank(size_t stage) const {
  size_t number = 0;
  for (size_t s = 0; s < stage; ++s) number += stages_[s].rank == axis_.rank ? 1 : 0;
  return number;
}

at::Tensor Passes::through(size_t stage, const at::Tensor& x, int64_t step, const Part& part, fsdp::GraphPieces& pieces,
                           Phases& phases) {
  const auto call = [&](const fsdp::Span& blocks, const at::Tensor& input) {
    return compute(stage, blocks, input, step, part);
  };
  if (units_) return units_->forward(number_on_rank(stage), x, is_last(static_cast<int>(stage)), call, pieces, phases);
  at::Tensor output = call({stages_[stage].first, stages_[stage].last}, x);
  pieces.push_back({x, output});
  return output;
}

at::Tensor Passes::evaluate(size_t stage, const at::Tensor& x, const Part& part) {
  const at::NoGradGuard no_grad;
  Phases phases;
  fsdp::GraphPieces pieces;
  return through(stage, x, /*step=*/0, part, pieces, phases);
}

void Passes::forward(const Action& action, Phases& phases) {
  const int stage = action.stage, microbatch = action.microbatch;
  const Part& mine = part(microbatch);
  Live& here = live(stage, microbatch);
  at::Tensor input = mine.batch.input;
  if (stage > 0) {
    phases.enter(Phase::waiting);
    input = arrived({.kind = Kind::receive_activation, .stage = stage, .microbatch = microbatch},
                    live(stage - 1, microbatch).output)
                .detach();
    if (input.is_floating_point()) input.requires_grad_();
  }
  phases.enter(Phase::forward);
  RECORD_USER_SCOPE(trace_name(step_, action));
  if (!delayed_.empty()) delayed_[place_of(stage, microbatch)] = std::make_shared<DelayedWeights>();
  const DelayedWeights::Scope scope(delayed_.empty() ? nullptr : delayed_[place_of(stage, microbatch)]);
  const at::Tensor output = through(static_cast<size_t>(stage), input, step_, mine, here.pieces, phases);
  if (!is_last(stage)) {
    here.output = output;
    return;
  }
  const at::Tensor loss = loss_(output, mine);
  here.pieces.back().output = loss;
  results_[static_cast<size_t>(microbatch)] = {output.detach(), loss.detach()};
}

void Passes::backward(const Action& action, Phases& phases) {
  const int stage = action.stage, microbatch = action.microbatch;
  Live& here = live(stage, microbatch);
  at::Tensor slope;
  if (!is_last(stage)) {
    phases.enter(Phase::waiting);
    Live& next = live(stage + 1, microbatch);
    slope = arrived({.kind = Kind::receive_gradient, .stage = stage, .microbatch = microbatch},
                    next.pieces.empty() ? at::Tensor() : slope_of(next.input()));
    if (rank_of(stage + 1) == axis_.rank) next = {};
  }
  phases.enter(Phase::backward);
  RECORD_USER_SCOPE(trace_name(step_, action));
  const UntypedOperations untyped;
  here.output.reset();
  if (units_) {
    const auto reduce = delayed_.empty() ? fsdp::Units::Reduce::after_each_unit : fsdp::Units::Reduce::later;
    units_->backward(number_on_rank(static_cast<size_t>(stage)), here.pieces, slope, is_last_part(microbatch), reduce,
                     phases);
  } else if (const at::Tensor output = std::move(here.pieces.front().output); output.requires_grad()) {
    slope.defined() ? dpbench::backward(output, slope) : dpbench::backward(output);
  }
  if (stage == 0) here = {};
  if (action.kind == Kind::full_backward) weight_gradients(stage, microbatch, phases);
}

void Passes::weight_gradients(int stage, int microbatch, Phases& phases) {
  if (delayed_.empty()) return;
  phases.enter(Phase::backward);
  const UntypedOperations untyped;
  std::exchange(delayed_[place_of(stage, microbatch)], nullptr)->compute();
  if (!units_) return;
  bool all = true;  // true if all stages of this rank have computed the weight gradients of this micro-batch
  for (int other = 0; other < static_cast<int>(stages_.size()); ++other)
    all = all && !delayed_[place_of(other, microbatch)];
  units_->reduce_stage(number_on_rank(static_cast<size_t>(stage)), is_last_part(microbatch), all, phases);
}

}  // namespace dpbench::layout
