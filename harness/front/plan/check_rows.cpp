#include "harness/front/plan/check_rows.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "harness/front/plan/layouts.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

std::vector<std::string> backends_for(Device device, const Catalogue& catalogue) {
  std::vector<std::string> fitting;
  for (const auto& backend : catalogue.backends)
    if (backend.takes(device) && !backend.threads) fitting.push_back(backend.name);
  return fitting;
}

bool draws_worlds(const Selection& selection, const std::vector<Place>& places) {
  return selection.check && selection.check->draws_worlds && selection.meshes.empty() && places.size() == 4;
}

bool draws_cases(const Selection& selection, const std::vector<Place>& places) {
  return draws_worlds(selection, places) && selection.check->draws_cases;
}

// True if the backend can affect the results of a case's checks: the case has several ranks, and its workload is no
// probe (model made for checks) or one with WorkloadEntry::thorough. If `check` draws the worlds, false for the largest
// one: it takes longest, so only the preferred backend runs there.
bool backend_matters(const Selection& selection, const std::vector<Place>& places, const Place& place,
                     const WorkloadEntry& workload) {
  if (draws_worlds(selection, places) && place.world == places.back().world) return false;
  return place.world > 1 && (!workload.probe || workload.thorough);
}

// Returns a number that depends on the seed and the text only.
size_t drawn_number(const Selection& selection, const std::string& text) {
  const std::string key = std::to_string(selection.seed) + text;
  return fnv1a_words(key.data(), key.size());
}

// Returns the number from which the turns of a strategy's workloads are counted.
size_t first_turn(const Selection& selection, const StrategyEntry& strategy) {
  return drawn_number(selection, strategy.name) % 24;
}

// Returns the strategy on which `check` runs the mesh if it draws cases: one of those that use all axes of the mesh,
// whatever their order.
const StrategyEntry* drawn_strategy(const Selection& selection, const ResolvedSelection& resolved, MeshShape mesh) {
  std::ranges::sort(mesh, {}, &AxisSize::name);
  std::vector<const StrategyEntry*> fitting;
  for (const StrategyEntry* strategy : resolved.strategies)
    if (strategy->cpu && strategy->missing_axis(mesh).empty()) fitting.push_back(strategy);
  return fitting.at(drawn_number(selection, text_of(mesh)) % fitting.size());
}

// True if `check`, when it draws cases, runs the strategy on workloads with experts only: its ranks are on an axis that
// divides experts, so other models prove nothing about it.
bool needs_experts(const ResolvedSelection& resolved, const StrategyEntry& strategy) {
  return !strategy.axes.empty() && axis_has(&KnownAxis::cuts_experts, strategy.axes.front()) &&
         std::ranges::any_of(resolved.workloads, &WorkloadEntry::experts);
}

// Returns the workloads on which `check` runs a strategy if it draws cases: the real ones and a quarter of the probes,
// or those with experts.
std::vector<const WorkloadEntry*> drawn_workloads(const ResolvedSelection& resolved, const StrategyEntry& strategy,
                                                  size_t first_turn) {
  const bool with_experts = needs_experts(resolved, strategy);
  std::vector<const WorkloadEntry*> drawn;
  for (size_t probes = first_turn; const WorkloadEntry* workload : resolved.workloads)
    if (with_experts ? workload->experts : !workload->probe || probes++ % 4 == 0) drawn.push_back(workload);
  return drawn;
}

}  // namespace

std::optional<std::string> model_on(const MeshShape& mesh, const WorkloadEntry& workload, const std::string& model,
                                    bool named) {
  if (size_of(mesh, &KnownAxis::cuts_experts) == 1) return model;
  if (workload.drawn_sizes.empty())  // the workload has one model, so experts cannot be added
    return size_of(mesh, &KnownAxis::cuts_layers) == 1 ? std::optional(model) : std::nullopt;
  const std::string experts = named ? "" : sizes_with_experts(workload, mesh);
  if (experts.empty()) return std::nullopt;
  return model.empty() ? experts : model + "," + experts;
}

void name_layouts(Selection& selection, const Catalogue& catalogue) {
  size_t most_axes = 0;
  for (const auto& strategy : catalogue.strategies) most_axes = std::max(most_axes, strategy.axes.size());
  if (selection.strategies.empty() && selection.check->names_strategies)
    for (const auto& strategy : catalogue.strategies)
      if (strategy.axes.size() == most_axes) selection.strategies.push_back(strategy.name);
  if (selection.workloads.empty() && selection.check->names_workloads)
    for (const auto& workload : catalogue.workloads)
      if (!workload.drawn_sizes.empty()) selection.workloads.push_back(workload.name);
}

void draw_rows(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
               const std::function<void(Row)>& emit) {
  std::mt19937_64 random(selection.seed);
  const auto one_of = [&](const auto& values) { return values[random() % values.size()]; };
  for (int64_t i = 0; i < selection.check->layouts; ++i) {
    const StrategyEntry& strategy = *one_of(resolved.strategies);
    const WorkloadEntry& workload = *one_of(resolved.workloads);
    Row row = base_row(selection, workload);
    row.strategy = &strategy;
    row.spec.strategy = strategy.name;
    row.spec.python = strategy.python || workload.python;
    row.spec.device = Device::cpu;
    draw_layout(random, strategy, workload, row.spec);
    row.spec.backend = one_of(backends_for(Device::cpu, catalogue));
    emit(std::move(row));
  }
}

std::vector<Place> drawn_places(const Selection& selection, const ResolvedSelection& resolved,
                                const std::vector<Place>& places, const StrategyEntry& strategy,
                                const WorkloadEntry& workload) {
  if (!draws_worlds(selection, places)) return places;
  const size_t first = first_turn(selection, strategy);
  if (draws_cases(selection, places)) {
    const std::vector<const WorkloadEntry*> drawn = drawn_workloads(resolved, strategy, first);
    const auto position = std::ranges::find(drawn, &workload);
    if (position == drawn.end()) return {};
    const size_t turn = first + static_cast<size_t>(position - drawn.begin());
    // Few workloads have experts, so each runs in three worlds.
    if (needs_experts(resolved, strategy)) return {places[1], places[2], places[turn % 2 * 3]};
    return {turn % 8 == 7 ? places[3] : places[turn % 3]};
  }
  // places: four worlds of increasing size. Each workload runs in two of them, and the next workload in another two, so
  // that all workloads together run a strategy in every world. Only every fourth workload runs in the largest world,
  // which takes longest. All backends run only in worlds of several ranks below the largest (see backend_matters()), so
  // each workload runs in at least one of these.
  const auto position = std::ranges::find(resolved.workloads, &workload) - resolved.workloads.begin();
  const size_t turn = first + static_cast<size_t>(position);
  if (turn % 4 == 3) return {places[1 + turn / 4 % 2], places[3]};
  return {places[turn % 3], places[(turn + 1) % 3]};
}

std::vector<Product> products_of(const Selection& selection, const ResolvedSelection& resolved,
                                 const StrategyEntry& strategy, const WorkloadEntry& workload,
                                 const std::string& model) {
  std::vector<Product> products;
  const int most_axes = selection.check ? selection.check->products : 0;
  const bool divides = !workload.drawn_sizes.empty() || !selection.workloads.empty();
  if (most_axes < 2 || !strategy.cpu || !divides) return products;
  const size_t axes = strategy.axes.size();
  for (size_t chosen = 0; chosen < size_t{1} << axes; ++chosen) {
    MeshShape mesh;
    for (size_t axis = 0; axis < axes; ++axis)
      if (chosen >> axis & 1) mesh.push_back({strategy.axes[axis], 2});
    if (mesh.size() < 2 || static_cast<int>(mesh.size()) > most_axes) continue;
    if (selection.check->draws_cases && drawn_strategy(selection, resolved, mesh) != &strategy) continue;
    if (const auto fitting = model_on(mesh, workload, model, !selection.model.empty()))
      products.push_back({{Device::cpu, ranks_of(mesh), text_of(mesh), true}, *fitting});
  }
  return products;
}

std::vector<std::string> checked_backends(const Selection& selection, const Catalogue& catalogue,
                                          const ResolvedSelection& resolved, const Place& place,
                                          const StrategyEntry& strategy, const WorkloadEntry& workload) {
  auto fitting = backends_for(place.device, catalogue);
  const bool in_full = place.world <= selection.check->whole_worlds;
  if (fitting.empty() || !(in_full || backend_matters(selection, resolved.places, place, workload)))
    return resolved.backends;
  if (!draws_cases(selection, resolved.places)) return fitting;
  const auto position = std::ranges::find(resolved.workloads, &workload) - resolved.workloads.begin();
  return {fitting[(first_turn(selection, strategy) + static_cast<size_t>(position)) % fitting.size()]};
}

}  // namespace dpbench
