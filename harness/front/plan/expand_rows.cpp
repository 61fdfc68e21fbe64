#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "harness/front/plan/plan_steps.h"

namespace dpbench {
namespace {

const StrategyEntry* baseline_on(Device device, const Catalogue& catalogue) {
  for (const auto& strategy : catalogue.strategies)
    if (strategy.parallelism == Parallelism::single && strategy.runs_on(device)) return &strategy;
  return nullptr;
}

class Expansion {
 public:
  Expansion(const Selection& what, const Catalogue& catalogue, const Choice& choice,
            const std::function<void(Row)>& take)
      : what_(what), catalogue_(catalogue), choice_(choice), take_(take) {}

  void add_workload(const WorkloadEntry& workload) {
    const auto batches = what_.batches.empty() ? std::vector<int64_t>{workload.batch} : without_repeats(what_.batches);
    const auto dtypes = what_.dtypes.empty() ? std::vector<Dtype>{Dtype::f32} : without_repeats(what_.dtypes);
    for (const int64_t batch : batches)
      for (const Dtype dtype : dtypes) {
        const Row base{.spec = {.id = "",
                                .strategy = "",
                                .workload = workload.name,
                                .scaling = what_.scaling.value_or(workload.scaling),
                                .batch = batch,
                                .dtype = dtype,
                                .params = {},
                                .scale = what_.scale,
                                .accumulate = what_.accumulate,
                                .clip_norm = what_.clip_norm,
                                .seed = what_.seed,
                                .data_dir = what_.data_dir},
                       .workload = &workload};
        add_baselines(base);
        for (const StrategyEntry* strategy : choice_.strategies) add_strategy(base, *strategy);
      }
  }

 private:
  void add_baselines(const Row& base) {
    if (!what_.baseline) return;
    for (const Device device : {Device::cuda, Device::cpu}) {
      const bool used = std::ranges::any_of(choice_.places, [&](const Place& place) { return place.device == device; });
      if (const StrategyEntry* strategy = baseline_on(device, catalogue_); used && strategy)
        add_row(base, *strategy, {device, 1}, {}, "none", true);
    }
  }

  void add_strategy(const Row& base, const StrategyEntry& strategy) {
    for (const auto& place : places_of(strategy))
      for (const auto& params : combinations(choice_.axes, strategy))
        for (const auto& backend : backends_of(strategy, place, *base.workload))
          add_row(base, strategy, place, params, backend, false);
  }

  // A strategy named by the user that runs on none of the chosen devices is refused on its own device, unless it is a
  // single one: that always has its device.
  std::vector<Place> places_of(const StrategyEntry& strategy) const {
    const bool single = strategy.parallelism == Parallelism::single;
    std::vector<Place> places;
    for (const auto& place : choice_.places)
      if (strategy.runs_on(place.device)) places.push_back({place.device, single ? 1 : place.world});
    if (!places.empty() || what_.strategies.empty()) return places;
    const Device device = strategy.cuda ? Device::cuda : Device::cpu;
    if (single) return {{device, 1}};
    places = choice_.places;
    for (auto& place : places) place.device = device;
    return places;
  }

  std::vector<std::string> backends_of(const StrategyEntry& strategy, const Place& place,
                                       const WorkloadEntry& workload) const {
    if (strategy.parallelism != Parallelism::ranks) return {"none"};
    if (!what_.every_backend || !what_.backends.empty()) return choice_.backends;
    if (place.world > what_.whole_worlds && !backend_matters(place, workload)) return choice_.backends;
    std::vector<std::string> fitting;
    for (const auto& backend : catalogue_.backends)
      if (backend.takes(place.device) && !backend.threads) fitting.push_back(backend.name);
    return fitting.empty() ? choice_.backends : fitting;
  }

  // To the workloads, and to probes made of what a backend does; never to a rank alone.
  static bool backend_matters(const Place& place, const WorkloadEntry& workload) {
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
    spec.processes = strategy.parallelism == Parallelism::ranks ? place.world : 1;
    spec.params = params;
    spec.backend = backend;
    // The same strategy with other parameters is compared with it.
    spec.baseline = &strategy == baseline_on(place.device, catalogue_) && params.empty();
    take_(std::move(row));
  }

  const Selection& what_;
  const Catalogue& catalogue_;
  const Choice& choice_;
  const std::function<void(Row)>& take_;
};

}  // namespace

void expand(const Selection& what, const Catalogue& catalogue, const Choice& choice,
            const std::function<void(Row)>& take) {
  Expansion expansion(what, catalogue, choice, take);
  for (const WorkloadEntry* workload : choice.workloads) expansion.add_workload(*workload);
}

}  // namespace dpbench
