#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/front/plan/check_rows.h"

namespace dpbench {
namespace {

// Replaces each row by one row for each value of a field of CaseSpec (`axis`), such as the batch. Keeps the rows if the
// user chose no values.
template <class Value>
void multiply(std::vector<Row>& rows, const std::vector<Value>& values, std::type_identity_t<Value> CaseSpec::* axis) {
  if (values.empty()) return;
  std::vector<Row> all;
  for (const Row& row : rows)
    for (const Value& value : without_repeats(values)) all.emplace_back(row).spec.*axis = value;
  rows = std::move(all);
}

class Expansion {
 public:
  Expansion(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
            const std::function<void(Row)>& emit)
      : selection_(selection), catalogue_(catalogue), resolved_(resolved), emit_(emit) {}

  void add_workload(const WorkloadEntry& workload) {
    std::vector<Row> bases = {base_row(selection_, workload)};
    multiply(bases, selection_.batches, &CaseSpec::batch);
    multiply(bases, selection_.dtypes, &CaseSpec::dtype);
    multiply(bases, selection_.runtimes, &CaseSpec::runtime);
    for (const Row& base : bases) {
      add_baselines(base);
      if (resolved_.reference) add_strategy(base, *resolved_.reference, {{}}, true);
      for (const StrategyEntry* strategy : resolved_.strategies)
        add_strategy(base, *strategy, combinations(resolved_.axes, *strategy), false);
    }
  }

 private:
  void add_baselines(const Row& base) {
    if (!selection_.baseline) return;
    for (const Device device : {Device::cuda, Device::cpu}) {
      const bool used =
          std::ranges::any_of(resolved_.places, [&](const Place& place) { return place.device == device; });
      if (const StrategyEntry* strategy = baseline_on(device, catalogue_); used && strategy)
        add_row(base, *strategy, {device, 1}, {}, no_backend, true);
    }
  }

  void add_strategy(const Row& base, const StrategyEntry& strategy, const std::vector<ParamValues>& values,
                    bool added) {
    for (const auto& place : drawn_places(selection_, resolved_, places_of(strategy), strategy, *base.workload))
      for (const auto& params : values)
        for (const auto& backend : backends_of(strategy, place, *base.workload))
          add_row(checked_row(base, strategy, place), strategy, place, params, backend, added);
    for (const auto& [place, model] : products_of(selection_, resolved_, strategy, *base.workload, base.spec.model)) {
      Row row = base;
      row.spec.model = model;
      for (const auto& params : values) add_row(row, strategy, place, params, resolved_.backends.front(), added);
    }
  }

  // Returns the devices and worlds on which a strategy is tried. If the user named a strategy that runs on none of the
  // chosen devices, returns GPUs for a strategy that needs them, and the chosen devices for others. Then
  // settle_backend() skips the case with the reason.
  std::vector<Place> places_of(const StrategyEntry& strategy) const {
    const bool single = strategy.parallelism == Parallelism::single;
    std::vector<Place> places;
    for (const auto& place : resolved_.places)
      if (strategy.runs_on(place.device) && (single || named_or_fits(strategy, place)))
        places.push_back(single ? Place{place.device, 1} : place);
    if (!places.empty() || selection_.strategies.empty()) return places;
    const Device device = strategy.cuda ? Device::cuda : Device::cpu;
    if (single) return {{device, 1}};
    places = resolved_.places;
    if (strategy.cuda)
      for (auto& place : places) place.device = Device::cuda;
    return places;
  }

  // False for a strategy that does not use an axis of the mesh and that the user did not name. If the user named it,
  // judge() skips its cases with the reason.
  bool named_or_fits(const StrategyEntry& strategy, const Place& place) const {
    return !selection_.strategies.empty() || strategy.missing_axis(parse_mesh(place.mesh)).empty();
  }

  std::vector<std::string> backends_of(const StrategyEntry& strategy, const Place& place,
                                       const WorkloadEntry& workload) const {
    if (strategy.parallelism != Parallelism::ranks) return {no_backend};
    if (!selection_.check || !selection_.backends.empty()) return resolved_.backends;
    return checked_backends(selection_, catalogue_, resolved_, place, strategy, workload);
  }

  // Returns the row. In `check`, its model has experts if the ranks are on an axis that divides experts, the workload
  // has models with enough experts, and the user gave no model.
  Row checked_row(const Row& base, const StrategyEntry& strategy, const Place& place) const {
    Row row = base;
    if (!selection_.check) return row;
    const bool named = !selection_.model.empty();
    row.spec.model = model_on(parse_mesh(mesh_of(strategy, place)), *base.workload, base.spec.model, named)
                         .value_or(base.spec.model);
    return row;
  }

  // Returns the mesh of a case. Without --mesh, all ranks are on the strategy's first axis.
  static std::string mesh_of(const StrategyEntry& strategy, const Place& place) {
    if (place.has_mesh || place.world == 1 || strategy.parallelism != Parallelism::ranks || strategy.axes.empty() ||
        strategy.axes.front() == default_axis)
      return place.mesh;
    return text_of(MeshShape{{strategy.axes.front(), place.world}});
  }

  void add_row(Row row, const StrategyEntry& strategy, const Place& place, const ParamValues& params,
               const std::string& backend, bool added) {
    CaseSpec& spec = row.spec;
    row.strategy = &strategy;
    row.added = added;
    spec.strategy = strategy.name;
    spec.device = place.device;
    spec.world = place.world;
    spec.python = strategy.python || row.workload->python;
    spec.processes = strategy.parallelism == Parallelism::ranks ? place.world : 1;
    spec.params = params;
    spec.mesh = mesh_of(strategy, place);
    spec.backend = backend;
    // A case is the baseline only if it runs the baseline strategy with default parameters. With other parameters it is
    // an ordinary case, compared with the baseline.
    spec.baseline = &strategy == baseline_on(place.device, catalogue_) && params.empty();
    emit_(std::move(row));
  }

  const Selection& selection_;
  const Catalogue& catalogue_;
  const ResolvedSelection& resolved_;
  const std::function<void(Row)>& emit_;
};

// Returns the case's model; empty for the workload's default.
std::string model_of(const WorkloadEntry& workload, const Selection& selection) {
  if (workload.models.empty()) return "";
  return selection.model.empty() && selection.check ? workload.check_model : selection.model;
}

}  // namespace

Row base_row(const Selection& selection, const WorkloadEntry& workload) {
  Row row;
  row.workload = &workload;
  CaseSpec& spec = row.spec;
  spec.workload = workload.name;
  spec.scaling = selection.scaling.value_or(workload.scaling);
  spec.batch = workload.batch;
  spec.model = model_of(workload, selection);
  spec.scale = selection.scale;
  spec.accumulate = selection.accumulate;
  spec.recompute = selection.recompute;
  spec.clip_norm = selection.clip_norm;
  spec.seed = selection.seed;
  spec.data_dir = selection.data_dir;
  return row;
}

void expand(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
            const std::function<void(Row)>& emit) {
  if (selection.draws_layouts()) return draw_rows(selection, catalogue, resolved, emit);
  Expansion expansion(selection, catalogue, resolved, emit);
  for (const WorkloadEntry* workload : resolved.workloads) expansion.add_workload(*workload);
}

}  // namespace dpbench
