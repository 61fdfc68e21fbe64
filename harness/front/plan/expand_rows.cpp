#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/front/plan/layouts.h"
#include "harness/front/plan/plan_steps.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

const StrategyEntry* baseline_on(Device device, const Catalogue& catalogue) {
  for (const auto& strategy : catalogue.strategies)
    if (strategy.parallelism == Parallelism::single && strategy.runs_on(device)) return &strategy;
  return nullptr;
}

std::vector<std::pair<Dtype, Runtime>> combined(const std::vector<Dtype>& dtypes,
                                                const std::vector<Runtime>& runtimes) {
  std::vector<std::pair<Dtype, Runtime>> all;
  for (const Dtype dtype : dtypes)
    for (const Runtime runtime : runtimes) all.emplace_back(dtype, runtime);
  return all;
}

class Expansion {
 public:
  Expansion(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
            const std::function<void(Row)>& emit)
      : selection_(selection), catalogue_(catalogue), resolved_(resolved), emit_(emit) {}

  // Adds cases with random layouts (mesh, model and parameter values). They replace all other cases.
  void add_layouts() {
    std::mt19937_64 random(selection_.seed);
    const auto one_of = [&](const auto& values) { return values[random() % values.size()]; };
    for (int64_t i = 0; i < selection_.layouts; ++i) {
      const StrategyEntry& strategy = *one_of(resolved_.strategies);
      const WorkloadEntry& workload = *one_of(resolved_.workloads);
      Row row = base_row(workload, workload.batch, Dtype::f32, Runtime::torch);
      row.strategy = &strategy;
      row.spec.strategy = strategy.name;
      row.spec.python = strategy.python || workload.python;
      row.spec.device = Device::cpu;
      draw_layout(random, strategy, workload, row.spec);
      row.spec.backend = one_of(every_backend(Device::cpu));
      emit_(std::move(row));
    }
  }

  void add_workload(const WorkloadEntry& workload) {
    const auto batches =
        selection_.batches.empty() ? std::vector<int64_t>{workload.batch} : without_repeats(selection_.batches);
    const auto dtypes = selection_.dtypes.empty() ? std::vector<Dtype>{Dtype::f32} : without_repeats(selection_.dtypes);
    const auto runtimes =
        selection_.runtimes.empty() ? std::vector<Runtime>{Runtime::torch} : without_repeats(selection_.runtimes);
    for (const int64_t batch : batches)
      for (const auto& [dtype, runtime] : combined(dtypes, runtimes)) {
        const Row base = base_row(workload, batch, dtype, runtime);
        add_baselines(base);
        if (resolved_.reference) add_strategy(base, *resolved_.reference, {{}}, true);
        for (const StrategyEntry* strategy : resolved_.strategies)
          add_strategy(base, *strategy, combinations(resolved_.axes, *strategy), false);
      }
  }

 private:
  Row base_row(const WorkloadEntry& workload, int64_t batch, Dtype dtype, Runtime runtime) const {
    Row row;
    row.workload = &workload;
    CaseSpec& spec = row.spec;
    spec.workload = workload.name;
    spec.scaling = selection_.scaling.value_or(workload.scaling);
    spec.batch = batch;
    spec.dtype = dtype;
    spec.runtime = runtime;
    spec.model = model_of(workload);
    spec.scale = selection_.scale;
    spec.accumulate = selection_.accumulate;
    spec.recompute = selection_.recompute;
    spec.clip_norm = selection_.clip_norm;
    spec.seed = selection_.seed;
    spec.data_dir = selection_.data_dir;
    return row;
  }

  // Returns the case's model; empty for the workload's default.
  std::string model_of(const WorkloadEntry& workload) const {
    if (workload.models.empty()) return "";
    return selection_.model.empty() && selection_.own_rows ? workload.check_model : selection_.model;
  }

  void add_baselines(const Row& base) {
    if (!selection_.baseline) return;
    for (const Device device : {Device::cuda, Device::cpu}) {
      const bool used =
          std::ranges::any_of(resolved_.places, [&](const Place& place) { return place.device == device; });
      if (const StrategyEntry* strategy = baseline_on(device, catalogue_); used && strategy)
        add_row(base, *strategy, {device, 1}, {}, "none", true);
    }
  }

  void add_strategy(const Row& base, const StrategyEntry& strategy, const std::vector<ParamValues>& values,
                    bool added) {
    for (const auto& place : drawn(places_of(strategy), strategy, *base.workload))
      for (const auto& params : values)
        for (const auto& backend : backends_of(strategy, place, *base.workload))
          add_row(base, strategy, place, params, backend, added);
    for (const auto& place : products_of(strategy, *base.workload))
      for (const auto& params : values) add_row(base, strategy, place, params, resolved_.backends.front(), added);
  }

  // Returns meshes that combine several of the strategy's axes, with two ranks on each axis, if the selection asks for
  // them. Returns none if the user named no workload and this workload's model has no layers and blocks to divide.
  std::vector<Place> products_of(const StrategyEntry& strategy, const WorkloadEntry& workload) const {
    std::vector<Place> places;
    const bool fits = workload.drawn_sizes.empty() ? !selection_.workloads.empty() : true;
    if (selection_.products < 2 || !strategy.cpu || !fits) return places;
    const size_t axes = strategy.axes.size();
    for (size_t chosen = 0; chosen < size_t{1} << axes; ++chosen) {
      MeshShape mesh;
      for (size_t axis = 0; axis < axes; ++axis)
        if (chosen >> axis & 1) mesh.push_back({strategy.axes[axis], 2});
      if (mesh.size() < 2 || static_cast<int>(mesh.size()) > selection_.products) continue;
      // The axis ep needs a model with experts. The models that `check` runs by default have none, and tp and cp cannot
      // divide experts.
      const bool has_experts = workload.drawn_sizes.empty() && size_of(mesh, "tp") == 1 && size_of(mesh, "cp") == 1;
      if (size_of(mesh, "ep") > 1 && !has_experts) continue;
      places.push_back({Device::cpu, ranks_of(mesh), text_of(mesh), true});
    }
    return places;
  }

  // Returns the devices and worlds on which a strategy is tried. If the user named a strategy that runs on none of the
  // chosen devices, returns the strategy's own device. settle_backend() then skips the case with the reason.
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
    for (auto& place : places) place.device = device;
    return places;
  }

  // False for a strategy that does not use an axis of the mesh and that the user did not name. If the user named it,
  // judge() skips its cases with the reason.
  bool named_or_fits(const StrategyEntry& strategy, const Place& place) const {
    return !selection_.strategies.empty() || strategy.missing_axis(parse_mesh(place.mesh)).empty();
  }

  // Returns two of the four places (device and world size), chosen by the seed, if the selection asks for that;
  // otherwise all places.
  std::vector<Place> drawn(const std::vector<Place>& places, const StrategyEntry& strategy,
                           const WorkloadEntry& workload) const {
    if (!selection_.draws_worlds || !selection_.meshes.empty() || places.size() != 4) return places;
    const std::string key = std::to_string(selection_.seed) + strategy.name;
    // Successive workloads get successive pairs of places, so that each strategy runs in every world. Every fourth
    // workload runs in the largest world, which takes longest. Each pair has a world of several ranks that is not the
    // largest: it runs over every backend.
    const size_t turn = fnv1a_words(key.data(), key.size()) % 12 + position_of(workload);
    if (turn % 4 == 3) return {places[1 + turn / 4 % 2], places[3]};
    return {places[turn % 3], places[(turn + 1) % 3]};
  }

  size_t position_of(const WorkloadEntry& workload) const {
    return static_cast<size_t>(std::ranges::find(resolved_.workloads, &workload) - resolved_.workloads.begin());
  }

  std::vector<std::string> backends_of(const StrategyEntry& strategy, const Place& place,
                                       const WorkloadEntry& workload) const {
    if (strategy.parallelism != Parallelism::ranks) return {"none"};
    if (!selection_.every_backend || !selection_.backends.empty()) return resolved_.backends;
    if (place.world > selection_.whole_worlds && !backend_matters(place, workload)) return resolved_.backends;
    const auto fitting = every_backend(place.device);
    return fitting.empty() ? resolved_.backends : fitting;
  }

  std::vector<std::string> every_backend(Device device) const {
    std::vector<std::string> fitting;
    for (const auto& backend : catalogue_.backends)
      if (backend.takes(device) && !backend.threads) fitting.push_back(backend.name);
    return fitting;
  }

  // True if the backend can affect the results of a case: the case has several ranks, and its workload is not a probe
  // (a model made for checks) or is a probe that is always checked in full. False for the largest of the drawn worlds:
  // it takes longest, so it runs over the preferred backend only.
  bool backend_matters(const Place& place, const WorkloadEntry& workload) const {
    if (selection_.draws_worlds && selection_.meshes.empty() && resolved_.places.size() == 4 &&
        place.world == resolved_.places.back().world)
      return false;
    return place.world > 1 && (!workload.probe || workload.thorough);
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
    spec.mesh = place.mesh;
    // Without --mesh, all ranks are on the strategy's first axis.
    if (!place.has_mesh && spec.processes > 1 && !strategy.axes.empty() && strategy.axes.front() != "dp")
      spec.mesh = text_of(MeshShape{{strategy.axes.front(), spec.world}});
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

}  // namespace

void expand(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
            const std::function<void(Row)>& emit) {
  Expansion expansion(selection, catalogue, resolved, emit);
  if (selection.layouts > 0) return expansion.add_layouts();
  for (const WorkloadEntry* workload : resolved.workloads) expansion.add_workload(*workload);
}

}  // namespace dpbench
