#include "strategies/layout/rank_model.h"

#include <map>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/block_runs.h"
#include "strategies/api/parts/broadcast.h"
#include "strategies/api/parts/same_model.h"
#include "strategies/layout/refusals.h"

namespace dpbench::layout {

using pipeline::Placed;

std::vector<at::Tensor> gradients_of(const std::vector<Held>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const Held& one : parameters)
    if (one.stored.grad().defined()) gradients.push_back(one.stored.grad());
  return gradients;
}

RankModel::RankModel(const Mesh& mesh, const Options& options, const Workload& workload, const Replica& replica,
                     const std::vector<int>& rank_of_stages, bool allows_idle)
    : options(options),
      replica(replica),
      axes(checked_axes(mesh, options.name)),
      tensors(checked_tensor_plan(*replica.shared_model(), axes.tp, options.tensor), axes.tp),
      experts(checked_expert_plan(*replica.shared_model(), axes.ep, options.name), axes.ep) {
  replica.trainable_tensors(options.name);  // throws if no parameter is trainable
  if (axes.world.group) {
    require_same_model(*axes.world.group, replica);
    broadcast_from(0, axes.world.group, replica.detached());
  }
  const Model& model = *replica.shared_model();
  stages = cut(workload, rank_of_stages);
  if (!allows_idle) refuse_idle_ranks(model, stages, axes.pp, options.name);
  parameters = placed_parameters(model, stages);
  buffers = placed_buffers(model, stages);
  refuse_parts_of_batch_statistics(buffers, options);
  refuse_uncut_sequence(model, axes, options);
  tensors.cut(model);
  experts.cut(model);
  if (options.sharded && axes.choose_shard(mesh, options)) shard();
  keep_own();
}

// Cuts the model into pipeline stages. Each rank counts the FLOP of the blocks for itself; all get the same cut,
// because they already have the same model.
std::vector<pipeline::Stage> RankModel::cut(const Workload& workload, const std::vector<int>& rank_of_stages) const {
  const Model& model = *replica.shared_model();
  const bool balances =
      options.pipeline.blocks.empty() && rank_of_stages.size() > 1 && model.blocks().size() > rank_of_stages.size();
  return pipeline::cut_stages(model, rank_of_stages, options.pipeline.blocks, options.name,
                              balances ? pipeline::flop_of(runs_of_blocks(replica, workload)) : std::vector<double>());
}

// Divides this rank's stages into units of sharded parameters.
void RankModel::shard() {
  std::vector<fsdp::Span> spans;
  for (const pipeline::Stage& stage : stages)
    if (stage.rank == axes.pp.rank) spans.push_back({stage.first, stage.last});
  const auto mine = [&](const at::Tensor& tensor) {
    return std::ranges::any_of(parameters,
                               [&](const Placed& one) { return one.tensor.is_same(tensor) && is_mine(one); });
  };
  NamedTensors names;
  std::vector<at::Tensor> parts;
  for (const Placed& one : parameters) {
    names.emplace_back(one.name, one.tensor);
    if (ranks_of(one).size() > 1 || axes.cp.size > 1 || axes.ep.size > 1 ||
        tensors.is_partial(one.name, options.tensor.sequence))
      parts.push_back(one.tensor);
  }
  const fsdp::Options& sharded = *options.sharded;
  units.emplace(*replica.shared_model(), names, spans, mine, sharded,
                fsdp::Storage{.shard = axes.shard,
                              .replica = axes.replicas,
                              .between = axes.between,
                              .whole = sharded.stage == fsdp::Stage::zero2,
                              .gathered = sharded.gathered,
                              .reduced = sharded.reduced,
                              .parts = parts,
                              .poison = sharded.poison});
}

// Fills the list `own` with this rank's parameters, and frees all parameters that are used only by stages of other
// ranks.
void RankModel::keep_own() {
  std::map<std::string, at::Tensor> rows;
  if (units)
    for (const fsdp::ShardedParameter& one : units->parameters()) rows.emplace(one.name, one.rows);
  for (const Placed& one : parameters)
    if (is_mine(one))
      own.push_back({&one, units ? rows.at(one.name) : one.tensor});
    else
      one.tensor.set_data(at::empty({0}, one.tensor.options()));
}

bool RankModel::counts(const Held& one) const {
  return owner_of(*one.placed) == axes.pp.rank && (axes.tp.rank == 0 || is_cut(one)) &&
         (axes.ep.rank == 0 || is_expert(one));
}

std::vector<int> RankModel::ranks_of(const Placed& one) const {
  std::vector<int> ranks;
  for (const int stage : one.stages)
    if (const int rank = rank_of(stage); std::ranges::count(ranks, rank) == 0) ranks.push_back(rank);
  return ranks;
}

bool RankModel::is_mine(const Placed& one) const {
  return std::ranges::any_of(one.stages, [&](int stage) { return rank_of(stage) == axes.pp.rank; });
}

at::Tensor RankModel::rank_piece(const std::string& name, const at::Tensor& whole) const {
  return experts.piece(name, tensors.piece(name, whole));
}

at::Tensor RankModel::stored_part(const std::string& name, const at::Tensor& whole) const {
  const at::Tensor piece = rank_piece(name, whole);
  return units ? units->rows_in(name, piece) : piece;
}

void RankModel::clear_gradients() {
  for (const Held& one : own) one.stored.mutable_grad().reset();
  if (units) units->clear_gradients();
}

}  // namespace dpbench::layout
