#include "strategies/layout/refusals.h"

#include <algorithm>

#include "workloads/base/error.h"

namespace dpbench::layout {

TensorPlan checked_tensor_plan(const Model& model, const Axis& tp, const tensor::Options& options) {
  if (tp.size == 1) return {};
  TensorPlan plan = model.tensor_plan(tp.size);
  if (plan.cuts.empty())
    throw UnsuitableModel(options.owner + ": this model has no layers that can be divided among ranks");
  if (options.sequence && plan.tokens == 0)
    throw UnsuitableModel(options.owner +
                          ".sequence=on: the activations of this model have no sequence that can be cut");
  return plan;
}

TensorPlan checked_expert_plan(const Model& model, const Axis& ep, const std::string& owner) {
  if (ep.size == 1) return {};
  TensorPlan plan;
  plan.cuts = model.expert_plan(ep.size).cuts;
  if (plan.cuts.empty()) throw UnsuitableModel(owner + ": this model has no experts, as --model experts=4 has");
  return plan;
}

Axes checked_axes(const Mesh& mesh, const std::string& owner) {
  Axes axes(mesh);
  for (const Axis* cut : {&axes.tp, &axes.cp})
    if (axes.ep.size > 1 && cut->size > 1)
      throw UsageError(owner + ": the axes ep and " + cut->name +
                       " cannot be combined, because no model with experts can be divided over " + cut->name +
                       ". Use ep with dp, shard or pp");
  return axes;
}

void refuse_idle_ranks(const Model& model, const std::vector<pipeline::Stage>& stages, const Axis& pp,
                       const std::string& owner) {
  std::vector<int> blocks(static_cast<size_t>(pp.size), 0);
  for (const pipeline::Stage& stage : stages)
    blocks[static_cast<size_t>(stage.rank)] += static_cast<int>(stage.last - stage.first);
  const auto idle = std::ranges::find(blocks, 0);
  if (pp.size == 1 || idle == blocks.end()) return;
  const size_t count = model.blocks().size();
  if (count == 0)
    throw UnsuitableModel(owner +
                          ": the model is not a list of blocks, so it cannot be cut into stages. In Python, model() "
                          "must return an nn.Sequential; in C++, the model must call add_block(). ddp and fsdp take "
                          "the model as it is");
  throw UnsuitableModel(owner + ": this model has no block for each rank: the model has " + std::to_string(count) +
                        (count == 1 ? " block" : " blocks") + ", too few for the " + std::to_string(pp.size) +
                        " ranks of the axis pp: rank " + std::to_string(idle - blocks.begin()) +
                        " would compute nothing. Use fewer ranks, or a model with more blocks");
}

void refuse_parts_of_batch_statistics(const std::vector<pipeline::Placed>& buffers, const Options& options) {
  const auto statistic =
      std::ranges::find_if(buffers, [](const pipeline::Placed& one) { return one.tensor.is_floating_point(); });
  if (options.pipeline.microbatches > 1 && statistic != buffers.end())
    throw UsageError(options.name + ".microbatches=" + std::to_string(options.pipeline.microbatches) +
                     ": the model's " + statistic->name +
                     " may be a statistic of a whole micro-batch, as BatchNorm's is. Use --accumulate instead");
}

void refuse_uncut_sequence(const Model& model, const Axes& axes, const Options& options) {
  const int cp = axes.cp.size, tp = axes.tp.size;
  if (cp == 1) return;
  const SequencePlan plan = model.sequence_plan();
  if (plan.tokens == 0)
    throw UnsuitableModel(options.name + ": this model has no sequence that can be cut, as cp does");
  const std::string ranks = " for the " + std::to_string(cp) + " ranks of cp";
  if (plan.tokens < cp)
    throw UsageError(options.name + ": a sequence of " + std::to_string(plan.tokens) + " tokens" + ranks);
  if (options.tensor.sequence && plan.tokens / cp < tp)
    throw UsageError(options.name + ".sequence=on: a sequence of " + std::to_string(plan.tokens) + " tokens" + ranks +
                     " and the " + std::to_string(tp) + " ranks of tp");
  // Computes the number of query heads that a rank of tp has. It has whole groups of query heads that share a key and
  // value head, or, if there are fewer such heads than ranks, just its share of the query heads.
  const bool grouped = plan.kv_heads >= tp;
  const int64_t heads = grouped ? plan.kv_heads / tp * (plan.heads / plan.kv_heads) : plan.heads / tp;
  if (options.context.kind == context::Kind::ulysses && heads < cp)
    throw UsageError(options.name + ".kind=ulysses: " + std::to_string(heads) + " attention heads" + ranks +
                     ". Use kind=ring");
}

void refuse_unsuitable(const Model& model, const Mesh& mesh, const Options& options) {
  Axes axes = checked_axes(mesh, options.name);
  checked_tensor_plan(model, axes.tp, options.tensor);
  checked_expert_plan(model, axes.ep, options.name);
  const pipeline::Schedules schedules(options.pipeline, axes.pp.size);
  const std::vector<pipeline::Stage> stages =
      pipeline::cut_stages(model, schedules.rank_of_stages(), options.pipeline.blocks, options.name);
  refuse_idle_ranks(model, stages, axes.pp, options.name);
  refuse_parts_of_batch_statistics(pipeline::placed_buffers(model, stages), options);
  refuse_uncut_sequence(model, axes, options);
  if (options.sharded) axes.choose_shard(mesh, options);
}

}  // namespace dpbench::layout
