#include "strategies/fsdp/options.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "strategies/fsdp/row_cut.h"
#include "strategies/fsdp/unit_plan.h"
#include "workloads/base/error.h"

namespace dpbench::fsdp {
namespace {

[[noreturn]] void refuse(const Params& params, const std::string& name, const std::string& why) {
  throw UsageError(params.owner() + "." + name + "=" + params.text(name) + " " + why);
}

using Narrow = std::optional<at::ScalarType>;
const Words<Narrow> narrow_dtypes = {{"own", std::nullopt}, {"bf16", at::kBFloat16}};

// Returns the number N if the parameter `reshard` has the form reshard=N; nullopt for a word such as reshard=on.
std::optional<int64_t> group_size_of(const Params& params) {
  const std::string& text = params.text("reshard");
  const bool is_number = !text.empty() && text[0] >= '0' && text[0] <= '9';
  return is_number ? std::optional(params.integer("reshard")) : std::nullopt;
}

void set_reshard(Options& options, const Params& params) {
  options.group_size = group_size_of(params);
  if (options.group_size && *options.group_size < 2)
    refuse(params, "reshard", "must be 2 or more. To keep whole units, use off");
  options.reshard =
      options.group_size
          ? Reshard::parts
          : chosen<Reshard>(params, "reshard", {{"on", Reshard::on}, {"off", Reshard::off}, {"shard", Reshard::parts}},
                            ", or a number of ranks");
}

// Returns the bytes of one rank's shard of these parameters. type_of: a function that returns the dtype in which a
// parameter is communicated.
template <class TypeOf>
int64_t shard_bytes(const std::vector<at::Tensor>& parameters, int ranks, const TypeOf& type_of) {
  int64_t bytes = 0;
  for (const at::Tensor& one : parameters)
    bytes += RowCut({one}, ranks).shard_elements() * static_cast<int64_t>(c10::elementSize(type_of(one)));
  return bytes;
}

std::vector<at::Tensor> trained_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> trained;
  std::ranges::copy_if(parameters, std::back_inserter(trained),
                       [](const at::Tensor& one) { return one.requires_grad(); });
  return trained;
}

// Returns true for the last unit (parameters that are gathered together) of a forward pass. The unit stays gathered,
// because its backward pass follows at once.
bool is_last(size_t unit, size_t units) { return unit + 1 == units; }

// Returns the number of ranks in a process group of the axis `name`, or of the parts of an axis if `name` is the parts'
// name, such as "shard/2". Returns 1 if the mesh has neither.
int ranks_of(const MeshShape& mesh, const std::string& name) {
  if (name == world_axis) return dpbench::ranks_of(mesh);
  for (const AxisSize& axis : mesh)
    if (axis.part > 1 && name == part_name(axis.name, axis.part)) return axis.part;
  return size_of(mesh, name);
}

std::string axis_of_rows(const MeshShape& mesh) { return size_of(mesh, "shard") > 1 ? "shard" : "dp"; }

// How often a step gathers a unit, in forward and in backward passes.
struct Gathers {
  int64_t forward = 0, backward = 0;
};

std::vector<Gathers> gathers_of_units(const Options& options, const UnitPlan& plan,
                                      const std::vector<UnitPass>& passes) {
  if (options.stage == Stage::zero2) return std::vector<Gathers>(plan.units.size(), {.forward = 1});
  std::vector<Gathers> all(plan.units.size());
  std::vector<bool> whole(plan.units.size(), false);
  for (const UnitPass& pass : passes) {
    const auto [first, end] = plan.units_of(pass.stage);
    for (size_t unit = first; unit < end; ++unit) {
      if (!whole[unit]) ++(pass.backward ? all[unit].backward : all[unit].forward);
      const bool stays = options.reshard == Reshard::off || (pass.last_stage && is_last(unit, end));
      whole[unit] = !pass.backward && stays;
    }
  }
  return all;
}

// Bytes and calls of a collective operation in a step.
struct Amount {
  int64_t bytes = 0, calls = 0;

  void add(const Amount& one, int64_t times = 1) { bytes += times * one.bytes, calls += times * one.calls; }
  Traffic on(const std::string& axis, const char* op) const { return {axis, op, bytes, calls}; }
};

}  // namespace

std::string shard_axis(const MeshShape& mesh, const Options& options) {
  const bool over_all = mesh.size() > 1 && options.reshard == Reshard::parts && !options.group_size;
  return over_all ? world_axis : axis_of_rows(mesh);
}
std::string replica_axis(const MeshShape& mesh, const Options& options) {
  return shard_axis(mesh, options) == "shard" ? "dp" : "";
}
std::string part_axis(const MeshShape& mesh, const Options& options) {
  if (options.reshard != Reshard::parts) return "";
  return options.group_size ? part_name(shard_axis(mesh, options), *options.group_size) : "shard";
}

Options options_of(Stage stage, const Params& params, std::optional<at::ScalarType> dtype) {
  Options options{.stage = stage};
  options.blocks_per_unit = params.integer("unit");
  if (options.blocks_per_unit < 1) refuse(params, "unit", "must be 1 or more");
  options.reduce_each_micro = chosen<bool>(params, "sync", {{"each", true}, {"last", false}});
  options.reduced = chosen(params, "reduce", narrow_dtypes);
  options.find_unused = params.flag("find_unused");
  if (stage == Stage::zero2) {
    options.reshard = Reshard::off;
    return options;
  }
  options.prefetch = params.integer("prefetch");
  if (options.prefetch < 0) refuse(params, "prefetch", "must be 0 or more");
  set_reshard(options, params);
  options.gathered = chosen(params, "gather", narrow_dtypes);
  options.poison = params.flag("poison");
  if (options.gathered && dtype == at::kFloat)
    refuse(params, "gather", "needs --dtype bf16, in which the parameters are used");
  if (options.gathered && !options.reduce_each_micro)
    throw UsageError(params.owner() + ".gather=bf16 and " + params.owner() +
                     ".sync=last cannot be combined: micro-batches would be added in bfloat16");
  // The checks also run in float64, in which gather=bf16 is ignored.
  if (dtype != at::kBFloat16) options.gathered.reset();
  return options;
}

std::vector<ParamInfo> parameters(Stage stage) {
  std::vector<ParamInfo> all = {
      {"unit", "1", "number of the model's blocks whose parameters are communicated together", "integer from 1"},
      {"sync", "each", "sum gradients over ranks in each micro-batch, or only in the last one", "each|last"},
      {"reduce", "own", "dtype in which gradients are summed: their own, or bf16", "own|bf16"},
      {"find_unused", "off", "ranks may use different parameters in a step"}};
  if (stage == Stage::zero2) return all;
  all.push_back({"prefetch", "1", "number of units that are gathered while another one computes", "integer from 0"});
  all.push_back(
      {"reshard", "on",
       "on: free a unit after its forward pass, and gather it again for its backward pass; off: keep it; shard: "
       "cut parameters over all ranks, and keep a part of the unit on each rank of the mesh's axis shard; a number: "
       "keep a part of the unit on each rank of groups of that many neighbouring ranks",
       "on|off|shard|integer from 2"});
  all.push_back({"gather", "own", "dtype in which matrices are gathered and used: their own, or bf16 with --dtype bf16",
                 "own|bf16"});
  all.push_back(
      {"poison", "off", "for tests: NaN in freed parameters, which keep their memory, and in gathers until they end"});
  return all;
}

Settings settings(Stage stage) {
  Settings all{.revealing = {{"unit", "1"}}, .allow_unused = {{"find_unused", "on"}}};
  if (stage == Stage::fsdp) all.revealing["poison"] = "on";
  return all;
}

std::vector<Variant> variants(Stage stage) {
  std::vector<Variant> all = {{"two_blocks", {{"unit", "2"}}},
                              {"last", {{"sync", "last"}}},
                              {"reduce_bf16", {{"reduce", "bf16"}}},
                              {"find_unused", {{"find_unused", "on"}}}};
  if (stage == Stage::zero2) return all;
  all.push_back({"gather_bf16", {{"gather", "bf16"}}});
  all.push_back({"poison", {{"poison", "on"}}});
  all.push_back({"kept", {{"reshard", "off"}, {"prefetch", "0"}, {"poison", "on"}}});
  all.push_back({"far_ahead", {{"prefetch", "2"}, {"sync", "last"}, {"poison", "on"}}});
  return all;
}

MeshShape mesh_for(const MeshShape& asked, const Params& params) {
  const int64_t part = group_size_of(params).value_or(1);
  MeshShape mesh = asked;
  for (AxisSize& axis : mesh)
    if (axis.name == axis_of_rows(asked) && part > 1 && part < axis.size && axis.size % part == 0)
      axis.part = static_cast<int>(part);
  return mesh;
}

void promise(Stage stage, StrategyInfo& info, const Params& params) {
  const Options options = options_of(stage, params, at::kBFloat16);
  info.used_in = options.gathered;
  info.reduced_in = options.reduced;
  info.allows_unused = options.find_unused;
  info.reduces_each_micro_batch = options.reduce_each_micro;
}

// Parameters of a unit that differ in their own dtype, in that of the gather or in that of the reduction travel in
// separate calls.
std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const UnitShare& share) {
  const std::string part = part_axis(query.mesh, options);
  const int ranks = share.shard.size, part_ranks = ranks_of(query.mesh, part);
  UnitPlan plan = plan_units(query.model, options.blocks_per_unit, share.stages);
  std::erase_if(plan.root.parameters, [&](const at::Tensor& one) { return !share.is_mine(one); });
  const auto own = [&](const at::Tensor& one) { return query.stored(one); };
  const auto as_gathered = [&](const at::Tensor& one) { return gathered_dtype(one, own(one), options.gathered); };
  const auto as_reduced = [&](const at::Tensor& one) {
    return share.is_part(one) ? own(one) : options.reduced.value_or(own(one));
  };
  const auto shards = [&](const std::vector<at::Tensor>& parameters, int pieces, const auto& type_of) {
    Amount amount;
    std::set<std::tuple<at::ScalarType, at::ScalarType, bool>> bundles;
    for (const at::Tensor& one : parameters) {
      bundles.emplace(own(one), as_gathered(one), share.is_part(one));
      amount.bytes +=
          RowCut({share.piece(one)}, pieces).shard_elements() * static_cast<int64_t>(c10::elementSize(type_of(one)));
    }
    amount.calls = static_cast<int64_t>(bundles.size());
    return amount;
  };
  Amount gathered = shards(plan.root.parameters, ranks, as_gathered), in_parts, reduced, summed;
  const auto add_gradients = [&](const PlannedUnit& unit) {
    const auto trained = trained_of(unit.parameters);
    const Amount one = shards(trained, ranks, as_reduced);
    reduced.add({ranks * one.bytes, one.calls}, options.reduce_each_micro ? share.parts : 1);
    summed.add(shards(trained, ranks, own));
  };
  add_gradients(plan.root);
  const std::vector<Gathers> gathers = gathers_of_units(options, plan, share.passes);
  for (size_t i = 0; i < plan.units.size(); ++i) {
    const std::vector<at::Tensor>& parameters = plan.units[i].parameters;
    const bool by_parts = options.reshard == Reshard::parts;
    gathered.add(shards(parameters, ranks, as_gathered), gathers[i].forward + (by_parts ? 0 : gathers[i].backward));
    if (by_parts) in_parts.add(shards(parameters, part_ranks, as_gathered), gathers[i].backward);
    add_gradients(plan.units[i]);
  }
  std::vector<Traffic> all;
  if (ranks > 1) all = {gathered.on(share.shard.name, "allgather"), reduced.on(share.shard.name, "reduce_scatter")};
  if (ranks > 1 && part_ranks > 1) all.push_back(in_parts.on(part, "allgather"));
  if (share.replicas.size > 1) all.push_back(summed.on(share.replicas.name, "allreduce"));
  return all;
}

// Returns the bytes of a rank's shards plus the peak bytes of gathered parameters. While one unit computes, the root
// unit is gathered too, and the next `prefetch` units are gathered or being gathered. Units that have computed stay
// gathered with reshard=off; with Reshard::parts each rank keeps a part of them.
std::optional<int64_t> live_parameters(Stage stage, const TrafficQuery& query) {
  const Options options = options_of(stage, query.params, query.dtype);
  if (stage == Stage::zero2 || options.poison || dpbench::ranks_of(query.mesh) == 1) return std::nullopt;
  const UnitPlan plan = plan_units(query.model, options.blocks_per_unit);
  const auto gathered = [&](const PlannedUnit& unit, int ranks) {
    return ranks * shard_bytes(unit.parameters, ranks, [&](const at::Tensor& one) {
             return gathered_dtype(one, query.stored(one), options.gathered);
           });
  };
  const auto whole = [&](const PlannedUnit& unit) { return gathered(unit, /*ranks=*/1); };
  const auto count = static_cast<int64_t>(plan.units.size());
  const auto ahead = [&](int64_t unit, int direction, int ranks) {
    int64_t bytes = 0, next = unit;
    for (int64_t k = 0; k < options.prefetch && (next += direction) >= 0 && next < count; ++k)
      bytes += gathered(plan.units[static_cast<size_t>(next)], ranks);
    return bytes;
  };
  const int ranks = ranks_of(query.mesh, shard_axis(query.mesh, options));
  const int ranks_backward =
      options.reshard == Reshard::parts ? ranks_of(query.mesh, part_axis(query.mesh, options)) : ranks;
  const bool again = options.reshard != Reshard::off;
  const auto shards = [&](const PlannedUnit& unit) {
    return shard_bytes(unit.parameters, ranks, [&](const at::Tensor& one) { return query.stored(one); });
  };
  const auto part = [&](const PlannedUnit& unit, int64_t i) {
    if (options.reshard != Reshard::parts || is_last(static_cast<size_t>(i), plan.units.size())) return int64_t{0};
    return gathered(unit, ranks_backward) / ranks_backward;
  };
  int64_t kept = whole(plan.root), most = gathered(plan.root, ranks), stored = shards(plan.root);
  for (int64_t i = 0; i < count; ++i) {
    const PlannedUnit& unit = plan.units[static_cast<size_t>(i)];
    stored += shards(unit);
    // True if this unit's gather began while the unit before it computed.
    const bool begun = i > 0 && options.prefetch > 0;
    if (!begun) most = std::max(most, kept + gathered(unit, ranks));
    if (again && options.prefetch == 0) most = std::max(most, kept + part(unit, i) + gathered(unit, ranks_backward));
    most = std::max(most, kept + whole(unit) + ahead(i, 1, ranks));
    if (again) most = std::max(most, kept + whole(unit) + ahead(i, -1, ranks_backward));
    kept += again ? part(unit, i) : whole(unit);
  }
  return stored + most;
}

}  // namespace dpbench::fsdp
