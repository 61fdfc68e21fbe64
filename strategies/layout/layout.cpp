#include "strategies/layout/layout.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/exchange/broadcast.h"
#include "strategies/exchange/share.h"
#include "strategies/experts/exchange.h"
#include "strategies/parts/same_model.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/parts/unused_parameters.h"
#include "workloads/base/error.h"

namespace dpbench::layout {
namespace {

using pipeline::Placed;

// Message tags of tied parameters lie above the tags of activations and gradients.
constexpr int first_tie_tag = 1 << 24;

TensorPlan checked_plan(const Model& model, const Axis& axis, const tensor::Options& options) {
  if (axis.size == 1) return {};
  TensorPlan plan = model.tensor_plan(axis.size);
  if (plan.cuts.empty()) throw UsageError(options.owner + ": this model has no layers that can be divided among ranks");
  if (options.sequence && plan.tokens == 0)
    throw UsageError(options.owner + ".sequence=on: the activations of this model have no sequence that can be cut");
  return plan;
}

TensorPlan cuts_of_experts(const Model& model, const Axis& axis, const Options& options) {
  if (axis.size == 1) return {};
  TensorPlan plan;
  plan.cuts = model.expert_plan(axis.size).cuts;
  if (plan.cuts.empty()) throw UsageError(options.name + ": this model has no experts, as --model experts=4 has");
  return plan;
}

// Returns the sum of `mine` over `ranks`, which has two or more ranks and includes this rank, `here`. Each rank
// receives all tensors and adds them in the order of ranks, so that all ranks get the same bits.
at::Tensor sum_among(const std::vector<int>& ranks, const at::Tensor& mine, const pipeline::Links& links, int here,
                     int tag) {
  std::vector<pipeline::Transfer> sent, all;
  for (const int rank : ranks) {
    if (rank == here) {
      all.push_back({mine, {}});
      continue;
    }
    // Gloo starts a message only after its peer has posted the receive, so both ranks receive first. With NCCL, both
    // ranks must start the two messages in the same order, so only the higher rank receives first.
    const bool receives_first = mine.is_cpu() || here > rank;
    if (!receives_first) sent.push_back(links.send_like(mine, rank, tag));
    all.push_back(links.receive_like(mine, rank, tag));
    if (receives_first) sent.push_back(links.send_like(mine, rank, tag));
  }
  at::Tensor sum = all[0].wait() + all[1].wait();
  for (size_t i = 2; i < all.size(); ++i) sum += all[i].wait();
  for (pipeline::Transfer& one : sent) one.wait();
  return sum;
}

}  // namespace

Layout::Layout(const Setup& setup, Options options)
    : workload_(setup.workload),
      options_(std::move(options)),
      mesh_(setup.mesh),
      replicas_(mesh_.axis("dp")),
      cp_(mesh_.axis("cp")),
      pp_(mesh_.axis("pp")),
      tp_(mesh_.axis("tp")),
      ep_(mesh_.axis("ep")),
      replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
      clip_norm_(setup.clip_norm),
      schedules_(options_.pipeline, pp_.size),
      stages_(pipeline::cut_stages(*replica_.shared_model(), schedules_.rank_of_stages(), options_.pipeline.blocks,
                                   options_.name)),
      tensors_(checked_plan(*replica_.shared_model(), tp_, options_.tensor), tp_),
      experts_(cuts_of_experts(*replica_.shared_model(), ep_, options_), ep_) {
  replica_.trainable_tensors(options_.name);  // throws if no parameter is trainable
  if (tp_.size == 1) options_.tensor.sequence = false;
  if (pp_.size == 1) options_.pipeline.microbatches = 1;  // without other stages there is nothing to overlap
  if (const auto& all = mesh_.group()) {
    require_same_model(*all, replica_);
    broadcast_from(0, all, replica_.detached());
  }
  const Model& model = *replica_.shared_model();
  parameters_ = placed_parameters(model, stages_);
  buffers_ = placed_buffers(model, stages_);
  refuse_parts_of_batch_statistics();
  refuse_uncut_sequence();
  tensors_.cut(model);
  experts_.cut(model);
  shard();
  keep_own();
  passes_.emplace(options_.name, replica_, stages_, pp_, options_.pipeline.poison, units_ ? &*units_ : nullptr,
                  [this](const at::Tensor& output, const Part& part) {
                    const at::Tensor loss = loss_of(output, part.batch.target, part.split, micros_);
                    return part.share == 1 ? loss : loss * part.share;
                  });
}

// Returns the axis of the mesh with this name; world_axis stands for an axis of all ranks.
Axis Layout::axis_of(const std::string& name) const {
  if (name != world_axis) return mesh_.axis(name);
  return {.name = name, .group = mesh_.group(), .rank = mesh_.group()->getRank(), .size = mesh_.group()->getSize()};
}

bool Layout::choose_shard_axes() {
  const fsdp::Options& options = *options_.sharded;
  const bool no_axis = mesh_.axis("shard").size == 1;
  if (options.reshard == fsdp::Reshard::shard && mesh_.group()->getSize() > 1 && no_axis)
    throw UsageError(options_.name + ".reshard=shard needs a mesh with an axis shard, such as --mesh dp=2,shard=2");
  if (options_.shards_over_dp) {
    shard_ = axis_of(shard_axis(mesh_.shape(), options.reshard));
    replicas_ = mesh_.axis(replica_axis(mesh_.shape(), options.reshard));
  } else if (no_axis && !options.gathered && !options.reduced) {
    if (options.find_unused || options.reduce_each_micro)
      throw UsageError(options_.name + "." + (options.find_unused ? "find_unused=on" : "sync=each") +
                       " needs a mesh with an axis shard");
    return false;
  } else {
    shard_ = mesh_.axis("shard");
  }
  return true;
}

void Layout::shard() {
  if (!options_.sharded || !choose_shard_axes()) return;
  const fsdp::Options& options = *options_.sharded;
  std::vector<fsdp::Span> spans;
  for (const pipeline::Stage& stage : stages_)
    if (stage.rank == pp_.rank) spans.push_back({stage.first, stage.last});
  const auto mine = [&](const at::Tensor& tensor) {
    return std::ranges::any_of(parameters_,
                               [&](const Placed& one) { return one.tensor.is_same(tensor) && is_mine(one); });
  };
  NamedTensors names;
  std::vector<at::Tensor> parts;
  for (const Placed& one : parameters_) {
    names.emplace_back(one.name, one.tensor);
    if (ranks_of(one).size() > 1 || cp_.size > 1 || ep_.size > 1 ||
        tensors_.is_partial(one.name, options_.tensor.sequence))
      parts.push_back(one.tensor);
  }
  units_.emplace(*replica_.shared_model(), names, spans, mine, options,
                 fsdp::Storage{.shard = shard_,
                               .replica = replicas_,
                               .between = options.reshard == fsdp::Reshard::shard ? mesh_.axis("shard") : Axis(),
                               .whole = options.stage == fsdp::Stage::zero2,
                               .gathered = options.gathered,
                               .reduced = options.reduced,
                               .parts = parts,
                               .poison = options.poison});
}

StepResult Layout::step(int64_t step, std::span<const Batch> micro, Phases& phases) {
  if (micro.empty())
    throw std::runtime_error(options_.name + ": this rank has no samples in step " + std::to_string(step));
  clear_gradients();
  share_buffers(phases);
  phases.enter(Phase::data);
  micros_ = micro.size();
  std::vector<Part> parts = parts_of(micro, phases);
  const Batch last = parts.back().batch;
  const pipeline::Schedule& schedule = schedules_.of(static_cast<int>(parts.size()));
  StepResult result = passes_->run(step, std::move(parts), schedule, phases);
  const at::NoGradGuard no_grad;
  phases.enter(Phase::communication);
  if (units_) units_->end_step(phases), take_gradients();
  sum_partial();
  sum_tokens();
  sum_tied();
  average_over_replicas();
  average_over_experts();
  if (options_.tensor.verify) verify();
  if (clip_norm_) clip();
  result = shared(std::move(result), last);
  phases.enter(Phase::optimizer);
  optimizer_->step(step);
  if (!options_.sharded || options_.sharded->stage == fsdp::Stage::fsdp) return result;
  phases.enter(Phase::communication);
  units_->update();
  return result;
}

// Returns the result with the last stage's loss, on every rank. The output is sent only if gather_output() is called.
StepResult Layout::shared(StepResult result, const Batch& last) {
  if (!is_distributed()) return result;
  const int root = stages_.back().rank;
  result.loss = passes_->links().share(result.loss, root);
  result.gather_output = [this, root, split = exchange(last, nullptr), piece = std::move(result.output)] {
    const at::NoGradGuard no_grad;
    const bool joins = split.cuts_output() && pp_.rank == root;
    return passes_->links().share(joins ? workload_.joined_output(piece, split) : piece, root);
  };
  result.output.reset();
  return result;
}

at::Tensor Layout::forward(const Batch& mine) {
  const at::NoGradGuard no_grad;
  const auto& model = replica_.shared_model();
  model->eval();
  at::Tensor output;
  for (int c = 0; c < cp_.size; ++c)
    for (int p = 0; p < pp_.size; ++p)
      for (int t = 0; t < tp_.size; ++t) {
        const auto shared = [&](const at::Tensor& tensor) {
          at::Tensor one = tensor.defined() ? tensor.to(replica_.device()) : tensor;
          for (const auto& [axis, rank] : {std::pair{&cp_, c}, {&pp_, p}, {&tp_, t}})
            one = share(one, rank, *axis, replica_.device());
          return one;
        };
        const at::Tensor found = evaluate({shared(mine.input), {}, shared(mine.ids)});
        if (c == cp_.rank && p == pp_.rank && t == tp_.rank) output = found;
      }
  model->train();
  return output;
}

// Evaluates samples that are equal on all ranks of a replica. Collective among these ranks.
at::Tensor Layout::evaluate(const Batch& batch) {
  const Part part{.batch = replica_.to_device(batch), .split = exchange(batch, nullptr)};
  at::Tensor x = part.batch.input;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].rank == pp_.rank) x = passes_->evaluate(s, x, part);
    const bool moves = s + 1 == stages_.size() || stages_[s + 1].rank != stages_[s].rank;
    if (moves) x = passes_->links().share(x, stages_[s].rank);
  }
  if (units_) units_->end_evaluation();
  return part.split.cuts_output() ? workload_.joined_output(x, part.split) : x;
}

std::map<std::string, std::vector<double>> Layout::figures() {
  const auto peak = units_ ? static_cast<double>(units_->take_peak()) : 0;
  if (peak == 0) return {};  // no parameters are freed, so none are gathered
  return {{"gathered_parameters_peak_bytes", {peak}}};
}

std::vector<int> Layout::ranks_of(const Placed& one) const {
  std::vector<int> ranks;
  for (const int stage : one.stages)
    if (const int rank = rank_of(stage); std::ranges::count(ranks, rank) == 0) ranks.push_back(rank);
  return ranks;
}

bool Layout::is_mine(const Placed& one) const {
  return std::ranges::any_of(one.stages, [&](int stage) { return rank_of(stage) == pp_.rank; });
}

void Layout::refuse_parts_of_batch_statistics() const {
  const auto statistic =
      std::ranges::find_if(buffers_, [](const Placed& one) { return one.tensor.is_floating_point(); });
  if (options_.pipeline.microbatches > 1 && statistic != buffers_.end())
    throw UsageError(options_.name + ".microbatches=" + std::to_string(options_.pipeline.microbatches) +
                     ": the model's " + statistic->name +
                     " may be a statistic of a whole micro-batch, as BatchNorm's is. Use --accumulate instead");
}

void Layout::refuse_uncut_sequence() const {
  if (cp_.size == 1) return;
  const SequencePlan plan = replica_.shared_model()->sequence_plan();
  if (plan.tokens == 0) throw UsageError(options_.name + ": this model has no sequence that can be cut, as cp does");
  const std::string ranks = " for the " + std::to_string(cp_.size) + " ranks of cp";
  if (plan.tokens < cp_.size)
    throw UsageError(options_.name + ": a sequence of " + std::to_string(plan.tokens) + " tokens" + ranks);
  if (options_.tensor.sequence && plan.tokens / cp_.size < tp_.size)
    throw UsageError(options_.name + ".sequence=on: a sequence of " + std::to_string(plan.tokens) + " tokens" + ranks +
                     " and the " + std::to_string(tp_.size) + " ranks of tp");
  // Under tp a rank has whole groups of query heads with their key and value head, unless there are fewer key and value
  // heads than ranks.
  const bool grouped = plan.kv_heads >= tp_.size;
  const int64_t heads = grouped ? plan.kv_heads / tp_.size * (plan.heads / plan.kv_heads) : plan.heads / tp_.size;
  if (options_.context.kind == context::Kind::ulysses && heads < cp_.size)
    throw UsageError(options_.name + ".kind=ulysses: " + std::to_string(heads) + " attention heads" + ranks +
                     ". Use kind=ring");
}

// Frees the parameters that only stages of other ranks use, and creates the optimizer for the parts of the other
// parameters that this rank stores.
void Layout::keep_own() {
  std::map<std::string, at::Tensor> rows;
  if (units_)
    for (const fsdp::ShardedParameter& one : units_->parameters()) rows.emplace(one.name, one.rows);
  for (const Placed& one : parameters_)
    if (is_mine(one))
      own_.push_back({&one, units_ ? rows.at(one.name) : one.tensor});
    else
      one.tensor.set_data(at::empty({0}, one.tensor.options()));
  std::vector<Parameter> stepped;
  std::vector<int64_t> dimensions;
  for (const Held& one : trainable()) {
    if (one.stored.numel() == 0 && one.placed->tensor.numel() > 0) continue;  // skips a parameter without local rows
    stepped.push_back({one.name(), one.stored});
    dimensions.push_back(static_cast<int64_t>(one.placed->sizes.size()));
  }
  optimizer_.emplace(workload_.optimizer(), stepped, dimensions);
}

// Returns the number of parts into which the pipeline cuts each micro-batch. Ranks that gather parameters together, or
// exchange tokens, use the same numbers.
std::vector<int64_t> Layout::part_counts(std::span<const Batch> micro) const {
  const int64_t most = options_.pipeline.microbatches;
  std::vector<int64_t> counts;
  for (const Batch& batch : micro) counts.push_back(std::clamp<int64_t>(batch.rows(), 1, most));
  const bool gathers = units_ && shard_.size > 1;
  if (most == 1 || !(gathers || ep_.size > 1)) return counts;
  std::vector<at::Tensor> smallest = {at::tensor(counts).to(replica_.device())};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  if (gathers) shard_.group->allreduce(smallest, options)->wait();
  if (ep_.size > 1) ep_.group->allreduce(smallest, options)->wait();
  const at::Tensor agreed = smallest[0].cpu();
  const auto* first = agreed.const_data_ptr<int64_t>();
  return {first, first + counts.size()};
}

std::vector<Part> Layout::parts_of(std::span<const Batch> micro, Phases& phases) const {
  std::vector<Part> parts;
  const std::vector<int64_t> counts = part_counts(micro);
  for (size_t k = 0; k < micro.size(); ++k) {
    const Batch batch = replica_.to_device(micro[k]);
    const std::vector<int64_t> rows = even_pieces(batch.rows(), static_cast<int>(counts[k]));
    for (size_t i = 0; i < rows.size(); ++i) {
      const Piece piece = piece_of(rows, static_cast<int>(i));
      const auto cut = [&](const at::Tensor& tensor) { return tensor.narrow(0, piece.first, piece.size); };
      Part part{.batch = rows.size() == 1 ? batch : Batch{cut(batch.input), cut(batch.target), cut(batch.ids)}};
      if (rows.size() > 1 && !workload_.sum_loss())
        part.share =
            static_cast<double>(workload_.loss_terms(part.batch)) / static_cast<double>(workload_.loss_terms(batch));
      part.split = exchange(part.batch, &phases);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

ModelSplit Layout::exchange(const Batch& batch, Phases* phases) const {
  ModelSplit split;
  int64_t tokens = batch.input.dim() > 1 ? batch.input.size(1) : 1;
  // When a model generates text, the prompt may have fewer tokens than there are ranks. Each rank then has all tokens.
  if (cp_.size > 1 && tokens >= cp_.size) {
    split.sequence = make_exchange(options_.context, tokens, phases);
    tokens = 0;
    for (const Piece& piece : split.sequence->tokens()) tokens += piece.size;
  }
  if (ep_.size > 1) split.experts = make_expert_exchange(phases);
  if (tp_.size == 1) return split;
  tensor::Options options = options_.tensor;
  if (!phases) options.sequence = false;  // an evaluation keeps no activations, so cutting them would save nothing
  if (options.sequence && tokens < tp_.size)
    throw UsageError(options_.name + ".sequence=on: a sequence of " + std::to_string(tokens) + " tokens for " +
                     std::to_string(tp_.size) + " ranks");
  split.tensor = make_exchange(options, tokens, phases);
  return split;
}

std::shared_ptr<const SequenceSplit> Layout::make_exchange(const context::Options& options, int64_t tokens,
                                                           Phases* phases) const {
  return std::make_shared<context::Exchange>(cp_, options, tokens, phases);
}

std::shared_ptr<const TensorSplit> Layout::make_exchange(const tensor::Options& options, int64_t tokens,
                                                         Phases* phases) const {
  return std::make_shared<tensor::Exchange>(tp_, options, tokens, phases);
}

std::shared_ptr<const ExpertSplit> Layout::make_expert_exchange(Phases* phases) const {
  return std::make_shared<experts::Exchange>(ep_, options_.name, replica_.device(), phases);
}

at::Tensor Layout::loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                           size_t micros) const {
  return micro_loss(workload_, output, target, micros, split);
}

void Layout::share_buffers(Phases& phases) const {
  phases.enter(Phase::communication);
  const auto buffers = replica_.buffer_list();
  if (buffers.empty()) return;
  for (const Axis* axis : {&replicas_, &shard_, &ep_})
    if (axis->size > 1) broadcast_from(0, axis->group, buffers);
}

void Layout::clear_gradients() {
  for (const Held& one : own_) one.stored.mutable_grad().reset();
  if (units_) units_->clear_gradients();
}

// Sets the gradients of the rows of parameters that this rank stores. With find_unused, parameters that no rank used
// get no gradient; without it, parameters that this rank did not use.
void Layout::take_gradients() {
  std::vector<fsdp::ShardedParameter> all = units_->parameters();
  std::erase_if(all, [](const fsdp::ShardedParameter& one) { return !one.trained; });
  const std::vector<bool> used = used_anywhere(all);
  for (size_t i = 0; i < all.size(); ++i)
    if (used[i]) all[i].rows.mutable_grad() = all[i].gradient;
}

std::vector<bool> Layout::used_anywhere(const std::vector<fsdp::ShardedParameter>& all) const {
  std::vector<int32_t> flags;
  for (const fsdp::ShardedParameter& one : all) flags.push_back(one.used ? 1 : 0);
  if (!options_.sharded->find_unused) return {flags.begin(), flags.end()};
  std::vector<at::Tensor> sum = {at::tensor(flags).to(replica_.device())};
  for (const Axis* axis : {&replicas_, &shard_, &ep_})
    if (axis->size > 1) axis->group->allreduce(sum)->wait();
  const at::Tensor counts = sum[0].cpu();
  const auto* first = counts.const_data_ptr<int32_t>();
  return std::vector<bool>(first, first + all.size());
}

void Layout::sum_partial() const {
  sum_over(tp_, gradients_of(own_if([this](const Held& one) { return is_partial(one); })));
}

void Layout::sum_tokens() const { sum_over(cp_, gradients_of(own_)); }

void Layout::sum_tied() {
  for (const Held& one : trainable()) {
    const std::vector<int> ranks = ranks_of(*one.placed);
    if (ranks.size() < 2) continue;
    const int tag = first_tie_tag + static_cast<int>(one.placed - parameters_.data());
    const at::Tensor gradient = one.stored.grad();
    // The last element of the exchanged tensor counts the ranks that used the parameter.
    const at::Tensor mine = at::cat({(gradient.defined() ? gradient : at::zeros_like(one.stored)).reshape({-1}),
                                     at::full({1}, gradient.defined() ? 1 : 0, one.stored.options())});
    const at::Tensor sum = sum_among(ranks, mine, passes_->links(), pp_.rank, tag);
    const bool used = sum[-1].item<double>() != 0;
    one.stored.mutable_grad() =
        used ? sum.narrow(0, 0, one.stored.numel()).view(one.stored.sizes()).clone() : at::Tensor();
  }
}

void Layout::average_over_replicas() const {
  const bool unused_allowed = units_ && options_.sharded->find_unused;
  if (!unused_allowed && (units_ || replicas_.size > 1 || ep_.size > 1)) refuse_unused();
  if (!units_) sum_over(replicas_, gradients_of(own_), replicas_.size);
}

// The gradients of experts are only divided by the ranks of ep, because they already cover the samples of all these
// ranks.
void Layout::average_over_experts() const {
  if (ep_.size == 1) return;
  sum_over(ep_, gradients_of(own_if([this](const Held& one) { return !is_expert(one); })), ep_.size);
  for (const at::Tensor& gradient : gradients_of(own_if([this](const Held& one) { return is_expert(one); })))
    gradient.div_(ep_.size);
}

std::vector<at::Tensor> Layout::gradients_of(const std::vector<Held>& parameters) const {
  std::vector<at::Tensor> gradients;
  for (const Held& one : parameters)
    if (one.stored.grad().defined()) gradients.push_back(one.stored.grad());
  return gradients;
}

void Layout::refuse_unused() const {
  std::vector<std::string> unused;
  for (const Held& one : trainable())
    if (!one.stored.grad().defined()) unused.push_back(one.name());
  if (unused.empty()) return;
  dpbench::refuse_unused(options_.name, unused,
                         units_ ? ". Use --param " + options_.name + ".find_unused=on."
                                : ", which the axis " + (replicas_.size > 1 ? replicas_ : ep_).name + " needs");
}

void Layout::verify() const {
  if (tp_.size == 1) return;
  for (const Held& one : own_)
    if (!tensors_.is_cut(one.name()) && one.stored.grad().defined())
      tensor::require_equal(one.stored.grad(), tp_, options_.name + ".verify: the gradient of " + one.name());
}

void Layout::clip() const {
  // The squared norm is summed over shard, pp, tp and ep, and one of these ranks counts each gradient element: on pp
  // the rank of the parameter's first stage, and on tp and ep, if the parameter is whole, the first rank.
  std::vector<at::Tensor> counted, copies;
  for (const Held& one : own_) {
    if (!one.stored.grad().defined()) continue;
    const bool counts = owner_of(*one.placed) == pp_.rank && (tp_.rank == 0 || tensors_.is_cut(one.name())) &&
                        (ep_.rank == 0 || is_expert(one));
    (counts ? counted : copies).push_back(one.stored.grad());
  }
  clip_parts(counted, *clip_norm_, replica_.device(),
             {shard_.group.get(), pp_.group.get(), tp_.group.get(), ep_.group.get()}, copies);
}

}  // namespace dpbench::layout
