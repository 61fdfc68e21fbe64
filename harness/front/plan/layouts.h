// Layouts for `dpbench check --layouts`: a mesh, a small model, parameter values and a dtype, drawn at random. A layout
// that fails is simplified.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "harness/front/plan/catalogue.h"
#include "harness/report/record/case.h"

namespace dpbench {

inline constexpr int most_drawn_ranks = 8;

// Draws a mesh, a model, parameters, a dtype and recomputation at random for a case of the strategy on the workload.
// Stores them in `spec`.
void draw_layout(std::mt19937_64& random, const StrategyEntry& strategy, const WorkloadEntry& workload, CaseSpec& spec);

// Returns the choice of the workload's drawn_sizes with the most experts that the mesh can divide, such as
// "experts=5,top_k=2"; empty if there is none.
std::string sizes_with_experts(const WorkloadEntry& workload, const MeshShape& mesh);

// Returns simpler versions of this case, each changed in one respect: an axis removed or shortened, a smaller model, a
// parameter at its default, float32, or no recomputation.
std::vector<CaseSpec> simpler_layouts(const CaseSpec& spec, const WorkloadEntry& workload);

// True for one in eight random layouts, chosen by the case and its seed: it also runs the costly scenarios.
bool runs_costly_scenarios(const CaseSpec& spec);

// Returns the command that checks this case alone. costly: with the costly scenarios.
std::string repeating_command(const CaseSpec& spec, bool costly = false);

}  // namespace dpbench
