// The rows of `dpbench check`: the layouts and meshes that it adds, and the worlds and backends that it leaves out to
// save time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/plan/plan_steps.h"

namespace dpbench {

// Completes the selection for --layouts. If it has no strategies, adds the ones with the most mesh axes; if it has no
// workloads, adds the ones whose model size can be chosen at random.
void name_layouts(Selection& selection, const Catalogue& catalogue);

// Passes rows with random layouts (mesh, model and parameter values) to `emit`. They replace all other rows.
void draw_rows(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
               const std::function<void(Row)>& emit);

// Returns the places (device and world size) in which `check` runs this strategy on this workload. If --mesh is not
// given and there are exactly four places, the seed chooses two of them with CheckSelection::draws_worlds, and one or
// none with CheckSelection::draws_cases (three for a workload with experts, if the strategy divides experts). Otherwise
// all places are returned.
std::vector<Place> drawn_places(const Selection& selection, const ResolvedSelection& resolved,
                                const std::vector<Place>& places, const StrategyEntry& strategy,
                                const WorkloadEntry& workload);

// Returns the model of a case on a mesh: `model`, with experts added if the mesh has an axis that divides experts.
// Returns nullopt if no fitting number of experts is known, or if experts must be added and the user gave the model
// (`named`).
std::optional<std::string> model_on(const MeshShape& mesh, const WorkloadEntry& workload, const std::string& model,
                                    bool named);

struct Product {
  Place place;
  std::string model;
};

// Returns CPU meshes that combine several of the strategy's axes, with two ranks on each axis, if the selection asks
// for them (CheckSelection::products). With CheckSelection::draws_cases, each mesh runs on one strategy, chosen by the
// seed. Returns none if the user named no workload and this workload has no model sizes to draw. model: the workload's
// model; experts are added to it on a mesh that divides experts.
std::vector<Product> products_of(const Selection& selection, const ResolvedSelection& resolved,
                                 const StrategyEntry& strategy, const WorkloadEntry& workload,
                                 const std::string& model);

// Returns the backends over which `check` runs a workload in a place (device, world size and mesh): every suitable
// backend, or only the preferred one if the backend can hardly affect the results or the world is the largest drawn.
// With CheckSelection::draws_cases, the seed chooses one of the suitable ones.
std::vector<std::string> checked_backends(const Selection& selection, const Catalogue& catalogue,
                                          const ResolvedSelection& resolved, const Place& place,
                                          const StrategyEntry& strategy, const WorkloadEntry& workload);

}  // namespace dpbench
