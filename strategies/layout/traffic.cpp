#include "strategies/layout/traffic.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/flat.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/context/token_cut.h"
#include "strategies/experts/options.h"
#include "strategies/fsdp/row_cut.h"
#include "strategies/fsdp/unit_plan.h"
#include "strategies/parts/rank_share.h"
#include "strategies/pipeline/stages.h"
#include "strategies/pipeline/traffic.h"
#include "strategies/tensor/tensors.h"

namespace dpbench::layout {
namespace {

using pipeline::Placed;
using pipeline::Stage;

// Returns an axis of the mesh, with the position of the query's rank on it and without a process group.
Axis axis_of(const TrafficQuery& query, const std::string& name) {
  if (name == world_axis) return {.name = name, .rank = query.rank, .size = ranks_of(query.mesh)};
  return {.name = name, .rank = place_on(query.mesh, name, query.rank), .size = size_of(query.mesh, name)};
}

TensorPlan expert_cuts(const ExpertPlan& plan) {
  TensorPlan cuts;
  cuts.cuts = plan.cuts;
  return cuts;
}

class Formula {
 public:
  Formula(const TrafficQuery& query, const Options& options);

  std::optional<std::vector<Traffic>> traffic();

 private:
  bool exists() const;
  int moving() const { return cp_.size * pp_.size * tp_.size * ep_.size; }  // number of ranks that exchange activations
  bool is_here(int stage) const { return stages_[static_cast<size_t>(stage)].rank == pp_.rank; }
  bool is_mine(const Placed& one) const {
    return std::ranges::any_of(one.stages, [&](int stage) { return is_here(stage); });
  }
  bool on_several_ranks(const Placed& one) const;
  at::Tensor piece(const std::string& name, const at::Tensor& whole) const {
    return experts_.piece(name, tensors_.piece(name, whole));
  }
  std::vector<Stage> cut_into_stages() const;
  std::vector<fsdp::Span> own_stages() const;
  RankShare rank_share() const;
  void set_tokens(RankShare& share) const;
  void set_recomputed(RankShare& share) const;
  SequencePlan own_sequence_plan() const;
  fsdp::UnitShare unit_share(const std::vector<Placed>& parameters, const RankShare& share) const;
  std::vector<Traffic> of_replicas(const RankShare& share) const;

  const TrafficQuery& query_;
  const Options& options_;
  Axis cp_, pp_, tp_, ep_, shard_, replicas_;
  bool has_units_ = false;
  TensorPlan plan_;
  ExpertPlan expert_plan_;
  tensor::CutTensors tensors_, experts_;
  std::vector<Stage> stages_;
};

Formula::Formula(const TrafficQuery& query, const Options& options)
    : query_(query),
      options_(options),
      cp_(axis_of(query, "cp")),
      pp_(axis_of(query, "pp")),
      tp_(axis_of(query, "tp")),
      ep_(axis_of(query, "ep")),
      shard_(axis_of(query, "shard")),
      replicas_(axis_of(query, "dp")),
      plan_(tp_.size > 1 ? query.model.tensor_plan(tp_.size) : TensorPlan()),
      expert_plan_(ep_.size > 1 ? query.model.expert_plan(ep_.size) : ExpertPlan()),
      tensors_(plan_, tp_),
      experts_(expert_cuts(expert_plan_), ep_) {
  if (options.sharded) {
    has_units_ = options.shards_over_dp || shard_.size > 1 || options.sharded->gathered || options.sharded->reduced;
    if (options.shards_over_dp) {
      shard_ = axis_of(query, fsdp::shard_axis(query.mesh, *options.sharded));
      replicas_ = axis_of(query, fsdp::replica_axis(query.mesh, *options.sharded));
    }
  }
}

std::vector<Stage> Formula::cut_into_stages() const {
  const pipeline::Options& options = options_.pipeline;
  const std::vector<int> rank_of = pipeline::Schedules(options, pp_.size).rank_of_stages();
  const bool balances = options.blocks.empty() && rank_of.size() > 1 && query_.model.blocks().size() > rank_of.size();
  return pipeline::cut_stages(query_.model, rank_of, options.blocks, options_.name,
                              balances ? pipeline::flop_of(query_.block_runs()) : std::vector<double>());
}

// Returns the blocks of each of this rank's stages.
std::vector<fsdp::Span> Formula::own_stages() const {
  std::vector<fsdp::Span> own;
  for (const Stage& stage : stages_)
    if (stage.rank == pp_.rank) own.push_back({stage.first, stage.last});
  return own;
}

bool Formula::exists() const {
  if (moving() > 1 && options_.sharded && options_.sharded->gathered) return false;
  if (options_.tensor.verify && tp_.size > 1) return false;
  const bool agree = ep_.size > 1 || (has_units_ && shard_.size > 1);
  if (options_.pipeline.microbatches > 1 && agree) return false;
  return pp_.size == 1 || (!query_.block_runs().empty() && (tp_.size == 1 || plan_.tokens > 0));
}

bool Formula::on_several_ranks(const Placed& one) const {
  return std::ranges::any_of(one.stages, [&](int stage) { return is_here(stage) != is_here(one.stages.front()); });
}

// Returns this rank's share of the trained parameters, of the samples and of their tokens.
RankShare Formula::rank_share() const {
  RankShare share;
  share.parts = pipeline::samples_of_parts(query_.micro, options_.pipeline.microbatches);
  if (pp_.size > 1) {
    share.has_loss = stages_.back().rank == pp_.rank;
    share.computes.assign(query_.model.blocks().size(), false);
    for (const Stage& stage : stages_)
      for (size_t block = stage.first; block < stage.last; ++block) share.computes[block] = stage.rank == pp_.rank;
  }
  for (const Placed& one : pipeline::placed_parameters(query_.model, stages_)) {
    if (!is_mine(one) || !one.tensor.requires_grad()) continue;
    at::Tensor stored = piece(one.name, one.tensor);
    if (has_units_) stored = fsdp::RowCut({stored}, shard_.size).rows_of(stored, 0, shard_.rank);
    share.parameters.emplace_back(one.name, stored);
  }
  set_tokens(share);
  set_recomputed(share);
  return share;
}

// Marks the blocks that the backward pass computes again. Each unit of fsdp is a span of its own for recomputation.
void Formula::set_recomputed(RankShare& share) const {
  const Model& model = query_.model;
  std::vector<fsdp::Span> spans = own_stages();
  if (has_units_) {
    const auto units = fsdp::plan_units(model, options_.sharded->blocks_per_unit, spans).units;
    spans.clear();
    for (const fsdp::PlannedUnit& unit : units) spans.push_back(unit.blocks);
  }
  share.again.assign(model.blocks().size(), false);
  for (auto [first, last] : spans)
    while (const size_t count = model.recomputed_blocks(first, last))
      for (size_t i = 0; i < count; ++i) share.again[first++] = true;
}

void Formula::set_tokens(RankShare& share) const {
  const int64_t tokens = cp_.size > 1 ? query_.model.sequence_plan().tokens : plan_.tokens;
  if (tokens == 0) return;
  const context::Options& options = options_.context;
  const context::TokenCut cut(tokens, cp_.size, options.kind == context::Kind::ring && options.zigzag);
  share.sequence = tokens;
  share.tokens = cut.count(cp_.rank);
  share.between =
      options_.tensor.sequence ? piece_of(even_pieces(share.tokens, tp_.size), tp_.rank).size : share.tokens;
}

// Returns the model's plan with the heads that this rank computes. Under tp a rank has whole groups of query heads with
// their key and value head, unless there are fewer key and value heads than ranks.
SequencePlan Formula::own_sequence_plan() const {
  SequencePlan plan = query_.model.sequence_plan();
  const bool grouped = plan.kv_heads >= tp_.size;
  const int64_t group = grouped ? plan.heads / plan.kv_heads : 1;
  plan.heads = piece_of(even_pieces(plan.heads, tp_.size, group), tp_.rank).size;
  plan.kv_heads = plan.heads / group;
  return plan;
}

// Returns the units of this rank. A rank's passes through its stages follow the pipeline schedule.
fsdp::UnitShare Formula::unit_share(const std::vector<Placed>& parameters, const RankShare& share) const {
  using pipeline::Kind;
  fsdp::UnitShare units{.shard = shard_, .replicas = replicas_, .parts = std::ssize(share.parts)};
  std::vector<size_t> number(stages_.size());  // index of each stage among this rank's stages
  units.stages = own_stages();
  for (size_t s = 0, mine = 0; s < stages_.size(); ++s)
    if (is_here(static_cast<int>(s))) number[s] = mine++;
  pipeline::Schedules schedules(options_.pipeline, pp_.size);
  const pipeline::Schedule& schedule = schedules.of(static_cast<int>(share.parts.size()));
  for (const pipeline::Action& action : schedule.ranks[static_cast<size_t>(pp_.rank)]) {
    const bool backward = action.kind == Kind::input_gradient || action.kind == Kind::full_backward;
    const auto stage = static_cast<size_t>(action.stage);
    if (backward || action.kind == Kind::forward)
      units.passes.push_back({.stage = number[stage], .backward = backward, .last_stage = stage + 1 == stages_.size()});
  }
  const auto placed = [&parameters](const at::Tensor& tensor) -> const Placed& {
    return *std::ranges::find_if(parameters, [&](const Placed& one) { return one.tensor.is_same(tensor); });
  };
  units.piece = [this, placed](const at::Tensor& whole) { return piece(placed(whole).name, whole); };
  units.is_mine = [this, placed](const at::Tensor& whole) { return is_mine(placed(whole)); };
  units.is_part = [this, placed](const at::Tensor& whole) {
    const Placed& one = placed(whole);
    return on_several_ranks(one) || cp_.size > 1 || ep_.size > 1 ||
           tensors_.is_partial(one.name, options_.tensor.sequence);
  };
  return units;
}

// Returns the traffic between ranks that train on different samples: broadcasts of the model's buffers, gathers and
// reductions of units (without units, reductions of gradients), and, with find_unused, the sets of used parameters.
std::vector<Traffic> Formula::of_replicas(const RankShare& share) const {
  std::vector<Traffic> all;
  if (has_units_) {
    const std::vector<Placed> parameters = pipeline::placed_parameters(query_.model, stages_);
    all = fsdp::traffic(query_, *options_.sharded, unit_share(parameters, share));
  } else if (replicas_.size > 1) {
    all.push_back(
        {replicas_.name, "allreduce", flat_bytes(query_, share.parameters), flat_buffers(query_, share.parameters)});
  }
  NamedTensors buffers = named_buffers(query_.model);
  for (auto& [name, buffer] : buffers) buffer = piece(name, buffer);
  for (const Axis* axis : {&replicas_, &shard_, &ep_}) {
    if (axis->size == 1) continue;
    all.push_back({axis->name, "broadcast", query_.bytes_of(buffers)});
    if (has_units_ && options_.sharded->find_unused)
      all.push_back({axis->name, "allreduce", std::ssize(share.parameters) * int64_t{sizeof(int32_t)}, 1});
  }
  return all;
}

std::optional<std::vector<Traffic>> Formula::traffic() {
  if (!exists()) return std::nullopt;
  const at::NoGradGuard no_grad;
  stages_ = cut_into_stages();
  // A stage without blocks, after the model's last block, receives the model's output: for gpt the logits. Under tp
  // each rank has only some columns of them, for which there is no formula.
  const auto receives_logits = [&](const Stage& stage) { return stage.first == query_.model.blocks().size(); };
  if (tp_.size > 1 && pp_.size > 1 && std::ranges::any_of(stages_, receives_logits)) return std::nullopt;
  const RankShare mine = rank_share();
  std::vector<Traffic> all = of_replicas(mine);
  const auto add = [&](const std::vector<Traffic>& more) { all.insert(all.end(), more.begin(), more.end()); };
  if (tp_.size > 1) add(tensor::traffic(query_, options_.tensor, plan_, tp_, mine));
  if (cp_.size > 1) add(context::traffic(query_, options_.context, own_sequence_plan(), cp_, mine));
  if (pp_.size > 1) add(pipeline::traffic(query_, options_.pipeline, stages_, pp_.rank, mine));
  if (ep_.size > 1) add(experts::traffic(query_, expert_plan_, mine));
  for (const Axis* axis : {&shard_, &pp_, &tp_, &ep_})
    if (query_.clips && axis->size > 1) all.push_back({axis->name, "allreduce", int64_t{sizeof(double)}, 1});
  return all;
}

}  // namespace

std::optional<std::vector<Traffic>> traffic(const Options& options, const TrafficQuery& query) {
  const Options effective = effective_on(query.mesh, options);
  return Formula(query, effective).traffic();
}

}  // namespace dpbench::layout
