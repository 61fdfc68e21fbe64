#include "harness/front/plan/layouts.h"

#include <algorithm>
#include <optional>

#include "harness/front/text/text.h"
#include "harness/report/text/shell.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

// Returns a random number below `end`. Does not use std::uniform_int_distribution: its values differ between standard
// libraries.
size_t below(std::mt19937_64& random, size_t end) { return random() % end; }

template <class T>
const T& one_of(std::mt19937_64& random, const std::vector<T>& values) {
  return values[below(random, values.size())];
}

void set_mesh(CaseSpec& spec, const MeshShape& mesh) {
  spec.world = spec.processes = ranks_of(mesh);
  spec.mesh = is_plain(mesh) ? "" : text_of(mesh);
}

// Returns the mesh of a case. An empty CaseSpec::mesh stands for all ranks on the axis dp.
MeshShape mesh_of(const CaseSpec& spec) {
  return spec.mesh.empty() ? MeshShape{{default_axis, spec.world}} : parse_mesh(spec.mesh);
}

MeshShape drawn_mesh(std::mt19937_64& random, std::vector<std::string> axes) {
  constexpr size_t most_axes = 3;
  const size_t count = 1 + below(random, std::min(most_axes, axes.size()));
  MeshShape mesh;
  while (mesh.size() < count) {
    const size_t which = below(random, axes.size());
    const int room = most_drawn_ranks / ranks_of(mesh);
    if (room < 2) break;
    mesh.push_back({axes[which], 2 + static_cast<int>(below(random, static_cast<size_t>(std::min(room, 4) - 1)))});
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(which));
  }
  return mesh;
}

// Returns the values that `check --layouts` may draw for a parameter, without its default. If the parameter accepts
// words and numbers, draws words alone: most numbers do not fit the drawn mesh.
std::vector<std::string> other_values(const ParamEntry& param) {
  std::vector<std::string> values = param.choices;
  if (param.kind == ParamKind::integer) values = {"1", "2", "3"};
  std::erase(values, param.fallback);
  return values;
}

// Returns the number of experts in model sizes such as "experts=4,top_k=2"; nullopt if they set none.
std::optional<int> experts_in(const std::string& sizes) {
  const std::string key = "experts=";
  return sizes.starts_with(key) ? std::optional(std::stoi(sizes.substr(key.size()))) : std::nullopt;
}

// False for model sizes with experts that the mesh cannot divide. An axis that cuts experts needs an expert for each
// rank; axes that cut layers need a model without experts.
bool fits(const std::string& sizes, const MeshShape& mesh) {
  const std::optional<int> experts = experts_in(sizes);
  if (!experts) return true;
  const int ranks = size_of(mesh, &KnownAxis::cuts_experts);
  return size_of(mesh, &KnownAxis::cuts_layers) > 1 ? *experts == 0 : ranks == 1 || *experts >= ranks;
}

std::string drawn_model(std::mt19937_64& random, const WorkloadEntry& workload, const MeshShape& mesh) {
  std::vector<std::string> sizes;
  for (std::vector<std::string> choices : workload.drawn_sizes) {
    std::erase_if(choices, [&](const std::string& choice) { return !fits(choice, mesh); });
    if (!choices.empty()) sizes.push_back(one_of(random, choices));
  }
  return join(sizes, ",");
}

// model: sizes joined by commas, as --model takes them. choices: alternatives for one of these sizes, the simplest
// first, e.g. "layers=1", "layers=2". Returns the model with this size replaced by the simplest alternative.
std::string with_first_choice(const std::string& model, const std::vector<std::string>& choices) {
  const std::string text = "," + model + ",";
  for (const std::string& choice : choices)
    if (const size_t at = text.find("," + choice + ","); at != std::string::npos)
      return model.substr(0, at) + choices.front() + model.substr(at + choice.size());
  return model;
}

}  // namespace

void draw_layout(std::mt19937_64& random, const StrategyEntry& strategy, const WorkloadEntry& workload,
                 CaseSpec& spec) {
  MeshShape mesh = drawn_mesh(random, strategy.axes);
  if (size_of(mesh, &KnownAxis::cuts_layers) > 1)
    std::erase_if(mesh, [](const AxisSize& axis) { return axis_has(&KnownAxis::cuts_experts, axis.name); });
  set_mesh(spec, mesh);
  if (!workload.drawn_sizes.empty()) spec.model = drawn_model(random, workload, mesh);
  for (const ParamEntry& param : strategy.params) {
    const auto values = other_values(param);
    if (!values.empty() && below(random, 8) == 0) spec.params[param.name] = one_of(random, values);
  }
  const size_t drawn = below(random, 24);
  if (drawn < 3) spec.dtype = Dtype::bf16;
  if (drawn % 3 == 0) spec.recompute = 1 + static_cast<int64_t>(below(random, 2));
}

std::string sizes_with_experts(const WorkloadEntry& workload, const MeshShape& mesh) {
  std::string found;
  for (const auto& choices : workload.drawn_sizes)
    for (const std::string& choice : choices)
      if (experts_in(choice).value_or(0) > experts_in(found).value_or(0) && fits(choice, mesh)) found = choice;
  return found;
}

std::vector<CaseSpec> simpler_layouts(const CaseSpec& spec, const WorkloadEntry& workload) {
  std::vector<CaseSpec> all;
  const MeshShape mesh = mesh_of(spec);
  const auto add_mesh = [&](const MeshShape& simpler) {
    all.push_back(spec);
    set_mesh(all.back(), simpler);
  };
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    MeshShape simpler = mesh;
    simpler.erase(simpler.begin() + static_cast<std::ptrdiff_t>(axis));
    if (!simpler.empty()) add_mesh(simpler);
    simpler = mesh;
    for (const int size : {2, mesh[axis].size - 1}) {
      simpler[axis].size = size;
      if (size >= 2 && size < mesh[axis].size) add_mesh(simpler);
    }
  }
  for (const auto& [name, value] : spec.params) {
    all.push_back(spec);
    all.back().params.erase(name);
  }
  if (spec.recompute > 0) {
    all.push_back(spec);
    all.back().recompute = 0;
  }
  if (spec.dtype != Dtype::f32) {
    all.push_back(spec);
    all.back().dtype = Dtype::f32;
  }
  for (const auto& choices : workload.drawn_sizes) {
    const std::string simpler = with_first_choice(spec.model, choices);
    if (simpler == spec.model) continue;
    all.push_back(spec);
    all.back().model = simpler;
  }
  for (CaseSpec& one : all) one.id = case_id(one);
  return all;
}

bool runs_costly_scenarios(const CaseSpec& spec) { return fnv1a(spec.id + std::to_string(spec.seed)) % 8 == 0; }

std::string repeating_command(const CaseSpec& spec, bool costly) {
  std::string flags = std::string("check ") + (costly ? "" : "--short ") + "--strategy " + spec.strategy;
  flags += " --workload " + spec.workload;
  flags += " --mesh " + text_of(mesh_of(spec));
  if (!spec.model.empty()) flags += " --model " + spec.model;
  for (const auto& [name, value] : spec.params) flags += " --param " + spec.strategy + "." + name + "=" + value;
  if (spec.recompute > 0) flags += " --recompute " + std::to_string(spec.recompute);
  if (spec.dtype != Dtype::f32) flags += " --dtype " + name_of(spec.dtype);
  return shell_command(flags + " --backend " + spec.backend + " --seed " + std::to_string(spec.seed));
}

}  // namespace dpbench
