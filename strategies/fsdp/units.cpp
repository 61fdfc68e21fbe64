#include "strategies/fsdp/units.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"
#include "strategies/api/trained_parameters.h"

namespace dpbench::fsdp {
namespace {

// Adds to each tensor its first name in `names`, which lists all tensors of the model.
std::vector<Parameter> named(const std::vector<at::Tensor>& tensors, const NamedTensors& names) {
  std::vector<Parameter> parameters;
  for (const at::Tensor& tensor : tensors) parameters.push_back({first_name(names, tensor), tensor});
  return parameters;
}

// Calls wait() and charges its time to the phase `communication`. Afterwards the previous phase goes on.
template <class Wait>
void communicate(Phases& phases, const Wait& wait) {
  const int before = phases.current();
  phases.enter(Phase::communication);
  wait();
  if (before >= 0) phases.enter(static_cast<Phase>(before));
}

UnitPlan plan_of(const Model& model, const std::vector<Span>& stages,
                 const std::function<bool(const at::Tensor&)>& is_mine, int64_t blocks_per_unit) {
  UnitPlan plan = plan_units(model, blocks_per_unit, stages);
  if (model.blocks().empty() && !std::ranges::all_of(plan.units[0].parameters, is_mine)) plan.units.clear();
  std::erase_if(plan.root.parameters, [&](const at::Tensor& one) { return !is_mine(one); });
  return plan;
}

}  // namespace

Units::Units(const Model& model, const NamedTensors& names, const std::vector<Span>& stages,
             const std::function<bool(const at::Tensor&)>& is_mine, const Options& options, const Storage& storage)
    : options_(options),
      frees_(storage.frees()),
      share_(1.0 / static_cast<double>(storage.shard.size * storage.replica.size)),
      plan_(plan_of(model, stages, is_mine, options.blocks_per_unit)),
      root_(plan_.root.name, named(plan_.root.parameters, names), storage) {
  for (const PlannedUnit& unit : plan_.units) units_.emplace_back(unit.name, named(unit.parameters, names), storage);
  for (size_t i = 0; i < names.size(); ++i)
    for (Unit* unit : all())
      if (unit->has(names[i].first)) places_.emplace(names[i].first, Place{i, unit});
}

std::vector<Unit*> Units::all() {
  std::vector<Unit*> all = {&root_};
  for (Unit& unit : units_) all.push_back(&unit);
  return all;
}

// Waits until a unit is gathered, then starts to gather the units that the pass needs next, of the same pipeline stage.
void Units::need(size_t unit, int direction, Phases& phases) {
  if (!frees_) return;
  if (!units_[unit].is_whole()) {
    communicate(phases, [&] { units_[unit].gather(); });
    note_peak(units_[unit].buffer_bytes());
  }
  int64_t next = static_cast<int64_t>(unit);
  for (int64_t ahead = 0; ahead < options_.prefetch; ++ahead) {
    next += direction;
    if (next < 0 || next >= static_cast<int64_t>(units_.size())) break;
    if (plan_.units[static_cast<size_t>(next)].stage != plan_.units[unit].stage) break;
    communicate(phases, [&] { units_[static_cast<size_t>(next)].begin_gather(); });
  }
  note_peak(0);
}

// Updates peak_bytes_, the peak of gathered bytes. beside: bytes of a communication buffer that is also in use.
void Units::note_peak(int64_t beside) {
  int64_t bytes = root_.held_bytes() + beside;
  for (const Unit& one : units_) bytes += one.held_bytes();
  peak_bytes_ = std::max(peak_bytes_, bytes);
}

int64_t Units::take_peak() { return std::exchange(peak_bytes_, 0); }

NamedTensors Units::kept_parts() const {
  NamedTensors parts;
  for (const Unit& unit : units_)
    for (const at::Tensor& part : unit.kept_parts()) parts.emplace_back(unit.name(), part);
  return parts;
}

void Units::free(size_t unit) {
  if (frees_) units_[unit].free();
}

void Units::free_after_forward(size_t unit) {
  if (!frees_) return;
  if (!at::GradMode::is_enabled() || options_.reshard == Reshard::on)
    units_[unit].free();
  else if (options_.reshard == Reshard::parts)
    units_[unit].free_between();
}

// Starts the reduction of a unit's gradients when the reduction of the previous unit has ended. So at most one unit at
// a time holds whole gradients for a reduction.
void Units::reduce(Unit& unit, bool last, Phases& phases) {
  if (reducing_) communicate(phases, [&] { reducing_->finish_reduce(reducing_last_); });
  unit.begin_reduce(share_);
  reducing_ = &unit;
  reducing_last_ = last;
}

at::Tensor Units::forward(size_t stage, const at::Tensor& x, bool last, const Compute& compute, GraphPieces& pieces,
                          Phases& phases) {
  if (frees_) communicate(phases, [&] { root_.gather(); });
  const bool learns = at::GradMode::is_enabled();
  const auto [first, end] = plan_.units_of(stage);
  if (first == end && learns) pieces.push_back({x, x});
  at::Tensor y = x;
  for (size_t u = first; u < end; ++u) {
    need(u, 1, phases);
    const at::Tensor input = u == first || !learns ? y : y.detach().requires_grad_(y.requires_grad());
    y = compute(plan_.units[u].blocks, input);
    if (learns) pieces.push_back({input, y});
    const bool stays = learns && last && u + 1 == end;
    if (!stays) free_after_forward(u);
  }
  return y;
}

void Units::backward(size_t stage, GraphPieces& pieces, at::Tensor slope, bool last, Reduce when, Phases& phases) {
  const bool reduces = when == Reduce::after_each_unit && (options_.reduce_each_micro || last);
  const auto [first, end] = plan_.units_of(stage);
  bool runs = true;
  const auto run = [&](const GraphPiece& piece) {
    if (runs && piece.output.requires_grad())
      slope.defined() ? dpbench::backward(piece.output, slope) : dpbench::backward(piece.output);
  };
  if (first == end) run(pieces[0]);
  for (size_t u = end; u-- > first;) {
    GraphPiece& piece = pieces[u - first];
    // Gathering is collective, so it happens even if this rank has no backward pass: other ranks may have one.
    need(u, -1, phases);
    run(piece);
    slope = piece.input.is_floating_point() ? piece.input.grad() : at::Tensor();
    runs = slope.defined();
    piece.output.reset();
    if (u > first) piece.input.reset();
    free(u);
    if (reduces) reduce(units_[u], last, phases);
  }
  if (reduces && stage == 0) reduce(root_, last, phases);
}

void Units::reduce_stage(size_t stage, bool last, bool all, Phases& phases) {
  if (!options_.reduce_each_micro && !last) return;
  const auto [first, end] = plan_.units_of(stage);
  for (size_t u = end; u-- > first;) reduce(units_[u], last, phases);
  if (all) reduce(root_, last, phases);
}

void Units::clear_gradients() {
  for (Unit* unit : all()) unit->clear_gradients();
}

void Units::end_step(Phases& phases) {
  phases.enter(Phase::communication);
  if (frees_) root_.free();
  if (reducing_) reducing_->finish_reduce(reducing_last_);
  reducing_ = nullptr;
  for (Unit* unit : all()) unit->finish();
}

void Units::end_evaluation() {
  if (frees_) root_.free();
}

void Units::update() {
  const std::vector<Unit*> units = all();
  units[0]->begin_update();
  for (size_t i = 0; i < units.size(); ++i) {
    if (i + 1 < units.size()) units[i + 1]->begin_update();
    units[i]->gather();
  }
}

std::vector<ShardedParameter> Units::parameters() {
  std::vector<ShardedParameter> found;
  for (Unit* unit : all())
    for (ShardedParameter& one : unit->parameters()) found.push_back(std::move(one));
  std::ranges::sort(found, {}, [&](const ShardedParameter& one) { return places_.at(one.name).number; });
  return found;
}

ByName Units::joined(const ByName& rows) {
  ByName wholes;
  for (const Unit* unit : all()) unit->join(rows, wholes);
  return wholes;
}

at::Tensor Units::rows_in(const std::string& name, const at::Tensor& whole) const {
  return places_.at(name).unit->rows_in(name, whole);
}

void Units::set(const std::string& name, const at::Tensor& whole) { places_.at(name).unit->set(name, whole); }

}  // namespace dpbench::fsdp
