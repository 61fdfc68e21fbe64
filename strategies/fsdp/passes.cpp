#include "strategies/fsdp/passes.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"
#include "workloads/base/error.h"

namespace dpbench::fsdp {
namespace {

// Returns the planned parameters with the names by which the replica knows them; frozen ones get their own.
std::vector<Parameter> named(const std::vector<at::Tensor>& tensors, const NamedTensors& names) {
  std::vector<Parameter> parameters;
  for (const at::Tensor& tensor : tensors) {
    const auto name = std::ranges::find_if(names, [&](const auto& one) { return one.second.is_same(tensor); });
    check(name != names.end(), "a layer of a block is not registered in its model");
    parameters.push_back({name->first, tensor});
  }
  return parameters;
}

// Calls wait() in the phase `communication`, then returns to the current one.
template <class Wait>
void communicate(Phases& phases, const Wait& wait) {
  const int before = phases.current();
  phases.enter(Phase::communication);
  wait();
  if (before >= 0) phases.enter(static_cast<Phase>(before));
}

}  // namespace

Passes::Passes(const Replica& replica, const Options& options, const Storage& storage)
    : replica_(replica),
      options_(options),
      frees_(storage.frees()),
      plan_(plan_units(*replica.shared_model(), options.blocks_per_unit)),
      root_(plan_.root.name, named(plan_.root.parameters, replica.parameters()), storage) {
  for (const PlannedUnit& unit : plan_.units)
    units_.emplace_back(unit.name, named(unit.parameters, replica.parameters()), storage);
}

std::vector<Unit*> Passes::units() {
  std::vector<Unit*> all = {&root_};
  for (Unit& unit : units_) all.push_back(&unit);
  return all;
}

at::Tensor Passes::span(size_t unit, const at::Tensor& x, int64_t step, const at::Tensor& ids) const {
  const PlannedUnit& planned = plan_.units[unit];
  if (planned.last == 0) return replica_.forward(step, {x, {}, ids});
  return replica_.forward_span(planned.first, planned.last, x, step, ids);
}

// Waits until a unit is gathered, then starts to gather the next ones in the direction of the pass.
void Passes::need(size_t unit, int direction, Phases& phases) {
  if (!frees_) return;
  if (!units_[unit].is_whole()) {
    communicate(phases, [&] { units_[unit].gather(); });
    note_peak(units_[unit].buffer_bytes());
  }
  int64_t next = static_cast<int64_t>(unit);
  for (int64_t ahead = 0; ahead < options_.prefetch; ++ahead) {
    next += direction;
    if (next < 0 || next >= static_cast<int64_t>(units_.size())) break;
    units_[static_cast<size_t>(next)].begin_gather();
  }
  note_peak(0);
}

// beside: bytes of a communication buffer that was in use until now.
void Passes::note_peak(int64_t beside) {
  int64_t bytes = root_.held_bytes() + beside;
  for (const Unit& one : units_) bytes += one.held_bytes();
  peak_bytes_ = std::max(peak_bytes_, bytes);
}

int64_t Passes::take_peak() { return std::exchange(peak_bytes_, 0); }

void Passes::free(size_t unit) {
  if (frees_) units_[unit].free();
}

void Passes::free_after_forward(size_t unit) {
  if (!frees_) return;
  if (!at::GradMode::is_enabled() || options_.reshard == Reshard::on)
    units_[unit].free();
  else if (options_.reshard == Reshard::shard)
    units_[unit].free_between();
}

// At most one reduction runs at a time, so that the unsharded gradients of at most one unit are kept for it.
void Passes::reduce(Unit& unit, double share, bool last, Phases& phases) {
  if (reducing_) communicate(phases, [&] { reducing_->finish_reduce(reducing_last_); });
  unit.begin_reduce(share);
  reducing_ = &unit;
  reducing_last_ = last;
}

at::Tensor Passes::forward(int64_t step, const Batch& batch, std::vector<Piece>& pieces, Phases& phases) {
  phases.enter(Phase::forward);
  if (frees_) communicate(phases, [&] { root_.gather(); });
  at::Tensor x = batch.input;
  for (size_t u = 0; u < units_.size(); ++u) {
    need(u, 1, phases);
    const bool whole_graph = u == 0 || !at::GradMode::is_enabled();
    const at::Tensor input = whole_graph ? x : x.detach().requires_grad_(x.requires_grad());
    x = span(u, input, step, batch.ids);
    if (at::GradMode::is_enabled()) pieces.push_back({input, x});
    const bool stays = u + 1 == units_.size() && at::GradMode::is_enabled();
    if (!stays) free_after_forward(u);
  }
  return x;
}

StepResult Passes::train(int64_t step, const Batch& batch, const Loss& loss_of, double share, bool last,
                         Phases& phases) {
  StepResult result;
  std::vector<Piece> pieces;
  const at::Tensor output = forward(step, batch, pieces, phases);
  const at::Tensor loss = loss_of(output, batch.target);
  phases.enter(Phase::backward);
  pieces.back().output = loss;
  backward(pieces, share, options_.reduce_each_micro || last, last, phases);
  add_micro(result, output, loss);
  return result;
}

void Passes::backward(std::vector<Piece>& pieces, double share, bool reduces, bool last, Phases& phases) {
  at::Tensor slope;  // gradient of the current unit's output; none for the loss
  for (size_t u = units_.size(); u-- > 0;) {
    Piece piece = std::exchange(pieces[u], {});
    need(u, -1, phases);  // also for a unit without a backward pass: other ranks may have one
    const bool runs = u + 1 == units_.size() || slope.defined();
    if (runs && piece.output.requires_grad())
      slope.defined() ? dpbench::backward(piece.output, slope) : dpbench::backward(piece.output);
    slope = piece.input.is_floating_point() ? piece.input.grad() : at::Tensor();
    piece = {};
    free(u);
    if (reduces) reduce(units_[u], share, last, phases);
  }
  if (reduces) reduce(root_, share, last, phases);
}

void Passes::end_step(Phases& phases) {
  phases.enter(Phase::communication);
  if (frees_) root_.free();
  if (reducing_) reducing_->finish_reduce(reducing_last_);
  reducing_ = nullptr;
  for (Unit* unit : units()) unit->finish();
}

void Passes::update() {
  const std::vector<Unit*> all = units();
  all[0]->begin_update();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i + 1 < all.size()) all[i + 1]->begin_update();
    all[i]->gather();
  }
}

at::Tensor Passes::evaluate(const Batch& batch) {
  const at::NoGradGuard no_grad;
  Phases phases;
  std::vector<Piece> pieces;
  const at::Tensor output = forward(/*step=*/0, batch, pieces, phases);
  if (frees_) root_.free();
  return output;
}

}  // namespace dpbench::fsdp
