// Wrong pipelines, with mistakes in the division by the number of micro-batches, in transfers, tied parameters,
// clipping, buffers or delayed weight gradients. Also contains correct pipelines.
#include <memory>
#include <optional>

#include <ATen/ATen.h>

#include "strategies/api/parts/broadcast.h"
#include "strategies/api/parts/replica.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/pipeline/links.h"
#include "strategies/pipeline/owned.h"
#include "strategies/pipeline/stages.h"
#include "tests/conformance/wrong_strategies/mutant.h"
#include "workloads/layers/delayed_weights.h"

namespace dpbench::wrong {
namespace pipeline_mistakes {

using namespace pipeline;

enum class Mistake {
  none,
  backward_in_reverse,  // no mistake: the order of the backward passes affects rounding alone
  not_divided,
  divided_twice,
  divided_after_each_micro_batch,
  last_backward_dropped,
  only_the_last_counts,
  sent_before_it_is_ready,
  send_buffer_reused,
  skip_of_the_neighbour,
  balance_of_the_own_stage,
  input_overwritten,
  gradient_sent_twice,
  gradient_of_the_neighbour,
  tie_not_summed,
  tie_summed_each_micro_batch,
  tie_averaged,
  tie_not_updated,
  clipped_by_stage,
  tie_clipped_twice,
  targets_of_the_first,
  ids_of_the_first,
  buffers_of_stage_0,
  first_stage_not_trained,
  loss_of_the_last_micro_batch,
  stages_without_broadcast,
  trains_while_evaluating,
  replicas_not_averaged,
  averaged_over_all_ranks,
  buffers_of_each_replica,
  // The following variants compute the weight gradients of linear layers after all other gradients.
  split,  // no mistake: only computes weight gradients later
  split_last_dropped,
  split_after_the_average,
  split_with_the_next_input,
  split_once_per_use,
};

// A pipeline with one stage on each rank. All forward passes come before all backward passes.
class PipelineReference : public Strategy {
 public:
  PipelineReference(const Setup& setup, Mistake mistake)
      : workload_(setup.workload),
        mistake_(mistake),
        axis_(setup.mesh.axis("pp")),
        replicas_(setup.mesh.axis("dp")),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        clip_norm_(setup.clip_norm),
        links_(axis_, setup.devices.at(0), false) {
    if (!is(Mistake::stages_without_broadcast)) broadcast_from(0, setup.mesh.group(), replica_.detached());
    std::vector<int> ranks;
    for (int r = 0; r < axis_.size; ++r) ranks.push_back(r);
    stages_ = cut_stages(*replica_.shared_model(), ranks, "");
    parameters_ = placed_parameters(*replica_.shared_model(), stages_);
    buffers_ = placed_buffers(*replica_.shared_model(), stages_);
    for (const Placed& one : parameters_) {
      // The mistake tie_not_updated: the last stage keeps the initial value of its copy of a tied parameter.
      const bool forgotten = is(Mistake::tie_not_updated) && one.tied() && is_last();
      if (mine(one) && one.tensor.requires_grad() && !forgotten) own_.push_back({one.name, one.tensor});
    }
    optimizer_.emplace(workload_.optimizer(), own_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases&) override {
    replica_.clear_gradients();
    live_.assign(micro.size(), {});
    const auto buffers = replica_.buffer_list();
    if (replicas_.size > 1 && !buffers.empty() && !is(Mistake::buffers_of_each_replica))
      broadcast_from(0, replicas_.group, buffers);
    for (size_t k = 0; k < micro.size(); ++k) forward_pass(step, micro, k);
    if (is(Mistake::send_buffer_reused) && axis_.rank == 0) send_from_one_buffer(micro);
    for (size_t k = 0; k < micro.size(); ++k)
      backward_pass(micro.size(), is(Mistake::backward_in_reverse) ? micro.size() - 1 - k : k);
    for (Transfer& sent : sent_) sent.wait();
    sent_.clear();
    if (is(Mistake::split_after_the_average))
      for (const Parameter& one : own_)
        if (!one.tensor.grad().defined()) one.tensor.mutable_grad() = at::zeros_like(one.tensor);
    if (splits()) compute_weights(is(Mistake::split_after_the_average) ? micro.size() - 1 : micro.size());
    if (!is(Mistake::tie_not_summed) && !is(Mistake::tie_summed_each_micro_batch)) sum_tied();
    if (!is(Mistake::replicas_not_averaged)) {
      std::vector<at::Tensor> gradients;
      for (const Parameter& one : own_) gradients.push_back(one.tensor.grad().detach());
      sum_over(replicas_, gradients, replicas_.size * (is(Mistake::averaged_over_all_ranks) ? axis_.size : 1));
    }
    if (is(Mistake::split_after_the_average)) live_.back().weights->compute();
    if (clip_norm_) clip();
    if (!(is(Mistake::first_stage_not_trained) && axis_.rank == 0)) optimizer_->step(step);
    StepResult result;
    for (Live& one : live_)
      if (is_last()) add_micro(result, one.output.detach(), one.loss.detach());
    if (is(Mistake::loss_of_the_last_micro_batch) && is_last()) result.loss = live_.back().loss.detach();
    return {links_.share(result.output, axis_.size - 1), links_.share(result.loss, axis_.size - 1)};
  }

  at::Tensor forward(const Batch& batch) override {
    const at::NoGradGuard no_grad;
    if (!is(Mistake::trains_while_evaluating)) replica_.shared_model()->eval();
    at::Tensor output;
    for (int rank = 0; rank < axis_.size; ++rank) {
      const at::Tensor ids = links_.share(batch.ids, rank);
      at::Tensor x = replica_.to_device({links_.share(batch.input, rank), {}, ids}).input;
      for (size_t s = 0; s < stages_.size(); ++s) {
        if (static_cast<int>(s) == axis_.rank) x = replica_.forward_span(stages_[s].first, stages_[s].last, x, 0, ids);
        x = links_.share(x, static_cast<int>(s));
      }
      if (rank == axis_.rank) output = x;
    }
    replica_.shared_model()->train();
    return output;
  }

  NamedTensors parameters() override {
    const auto found = whole([](const Placed& one) { return one.tensor; });
    NamedTensors all;
    for (const auto& [name, tensor] : replica_.parameters())
      for (size_t i = 0; i < parameters_.size(); ++i)
        if (parameters_[i].tensor.is_same(tensor)) all.emplace_back(name, found[i]);
    return all;
  }

  NamedTensors gradients() override {
    const auto found = whole([](const Placed& one) { return one.tensor.grad(); });
    NamedTensors all;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].tensor.requires_grad()) all.emplace_back(parameters_[i].name, found[i]);
    return all;
  }

  NamedTensors buffers() override {
    std::vector<int> owners;
    std::vector<Whole> wholes;
    for (const Placed& one : buffers_) {
      owners.push_back(is(Mistake::buffers_of_stage_0) ? 0 : one.stages.front());
      wholes.push_back({one.tensor.sizes().vec(), one.tensor.scalar_type()});
    }
    const auto found = from_owners(axis_, at::kCPU, owners, wholes, [&](size_t i) { return buffers_[i].tensor; });
    NamedTensors all;
    for (size_t i = 0; i < buffers_.size(); ++i) all.emplace_back(buffers_[i].name, found[i]);
    return all;
  }

  NamedTensors state() override { return {}; }

  void load(const Snapshot& snapshot) override {
    const at::NoGradGuard no_grad;
    for (const Placed& one : parameters_) one.tensor.detach().copy_(*find(snapshot.parameters, one.name));
    for (const Placed& one : buffers_) one.tensor.detach().copy_(*find(snapshot.buffers, one.name));
  }

 private:
  struct Live {
    at::Tensor input, output, loss;
    std::shared_ptr<DelayedWeights> weights;  // weight gradients not yet computed; null if none are delayed
  };

  bool is(Mistake mistake) const { return mistake_ == mistake; }
  bool splits() const { return mistake_ >= Mistake::split; }
  bool is_last() const { return axis_.rank + 1 == axis_.size; }
  bool mine(const Placed& one) const { return std::ranges::count(one.stages, axis_.rank) > 0; }

  void forward_pass(int64_t step, std::span<const Batch> micro, size_t k) {
    Live& here = live_[k];
    const Batch batch = replica_.to_device(micro[k]);
    here.input = batch.input;
    if (axis_.rank > 0) {
      here.input =
          links_.receive(axis_.rank - 1, static_cast<int>(2 * k), {axis_.rank - 1, true, batch.input.sizes().vec()})
              .wait();
      // The mistake balance_of_the_own_stage: zeroes the last input feature, in which earlier stages pass on their
      // balance loss.
      if (is(Mistake::balance_of_the_own_stage)) here.input.select(-1, here.input.size(-1) - 1).zero_();
      here.input.requires_grad_(here.input.is_floating_point());
    }
    const Stage& stage = stages_[static_cast<size_t>(axis_.rank)];
    const at::Tensor& ids = is(Mistake::ids_of_the_first) && micro[0].samples() >= batch.samples()
                                ? micro[0].ids.narrow(0, 0, batch.samples())
                                : batch.ids;
    if (splits()) here.weights = std::make_shared<DelayedWeights>();
    const DelayedWeights::Scope scope(here.weights);
    here.output =
        stage.first == stage.last ? here.input : replica_.forward_span(stage.first, stage.last, here.input, step, ids);
    // with the mistake send_buffer_reused, rank 0 sends its outputs later, in send_from_one_buffer()
    if (is(Mistake::send_buffer_reused) && axis_.rank == 0) return;
    if (!is_last()) {
      at::Tensor sent = here.output;
      if (is(Mistake::sent_before_it_is_ready)) sent = k == 0 ? at::zeros_like(sent) : live_[k - 1].output;
      if (sent.sizes() != here.output.sizes()) sent = here.output;
      // The mistake skip_of_the_neighbour: sends the stage's own output twice, in place of the output that skips it.
      if (is(Mistake::skip_of_the_neighbour)) sent = sent.chunk(2, 1)[0].repeat({1, 2});
      sent_.push_back(
          links_.send(sent, axis_.rank + 1, static_cast<int>(2 * k), {axis_.rank, true, batch.input.sizes().vec()}));
      return;
    }
    const size_t divisor = is(Mistake::not_divided) || is(Mistake::divided_after_each_micro_batch) ? 1 : micro.size();
    at::Tensor target = batch.target;
    if (is(Mistake::targets_of_the_first) && micro[0].samples() >= batch.samples())
      target = replica_.to_device(micro[0]).target.narrow(0, 0, batch.samples());
    here.loss = micro_loss(workload_, here.output, target, divisor);
    if (is(Mistake::divided_twice)) here.loss = here.loss / static_cast<double>(micro.size());
    // The mistake input_overwritten: fills a receive buffer again before the backward pass reads it.
    if (is(Mistake::input_overwritten) && k > 0 && here.input.sizes() == live_[k - 1].input.sizes())
      live_[k - 1].input.data().copy_(here.input.data());
  }

  // The mistake send_buffer_reused: each micro-batch is sent only after the next one of the same size overwrote it.
  void send_from_one_buffer(std::span<const Batch> micro) {
    for (size_t k = 0; k < micro.size(); ++k) {
      const bool overwritten = k + 1 < micro.size() && live_[k + 1].output.sizes() == live_[k].output.sizes();
      sent_.push_back(links_.send(live_[overwritten ? k + 1 : k].output, axis_.rank + 1, static_cast<int>(2 * k),
                                  {axis_.rank, true, micro[k].input.sizes().vec()}));
    }
  }

  void backward_pass(size_t micros, size_t k) {
    Live& here = live_[k];
    at::Tensor slope;
    if (!is_last()) slope = links_.receive_like(here.output, axis_.rank + 1, static_cast<int>(2 * k + 1)).wait();
    if (is(Mistake::only_the_last_counts) && k > 0) replica_.clear_gradients();
    const bool dropped = is(Mistake::last_backward_dropped) && k + 1 == micros && micros > 1 && axis_.rank == 0;
    if (is_last())
      here.loss.backward();
    else if (here.output.requires_grad() && !dropped)
      here.output.backward(slope);
    if (is(Mistake::divided_after_each_micro_batch))
      for (const Parameter& one : own_)
        if (one.tensor.grad().defined()) one.tensor.mutable_grad().detach().div_(static_cast<double>(micros));
    if (axis_.rank > 0) {
      at::Tensor back = here.input.grad().defined() ? here.input.grad() : at::zeros_like(here.input);
      if (is(Mistake::gradient_sent_twice)) back = 2 * back;
      const at::Tensor& other = live_[k == 0 ? 0 : k - 1].input;
      if (is(Mistake::gradient_of_the_neighbour) && k > 0 && other.sizes() == back.sizes()) back = other.grad();
      sent_.push_back(links_.send_like(back, axis_.rank - 1, static_cast<int>(2 * k + 1)));
    }
    if (is(Mistake::tie_summed_each_micro_batch)) sum_tied();
  }

  void compute_weights(size_t micros) {
    for (size_t k = 0; k < micros; ++k) {
      if (is(Mistake::split_last_dropped) && k + 1 == live_.size() && k > 0) continue;
      // The mistake split_with_the_next_input: the next micro-batch's input overwrites the input that the weight
      // gradient needs.
      if (is(Mistake::split_with_the_next_input) && k + 1 < live_.size() &&
          live_[k].input.sizes() == live_[k + 1].input.sizes())
        live_[k].input.data().copy_(live_[k + 1].input.data());
      is(Mistake::split_once_per_use) ? compute_per_use(*live_[k].weights) : live_[k].weights->compute();
    }
  }

  // The mistake split_once_per_use: each use of the weight that the model uses twice adds the sum over both uses.
  void compute_per_use(DelayedWeights& weights) {
    const auto twice = std::ranges::find(own_, "twice.weight", &Parameter::name);
    if (twice == own_.end()) return weights.compute();
    const at::Tensor before =
        twice->tensor.grad().defined() ? twice->tensor.grad().clone() : at::zeros_like(twice->tensor);
    weights.compute();
    const at::NoGradGuard no_grad;
    twice->tensor.mutable_grad().add_(twice->tensor.grad() - before);
  }

  void sum_tied() {
    for (const Placed& one : parameters_) {
      if (one.stages.size() < 2) continue;
      at::Tensor sum = mine(one) ? one.tensor.grad().detach().clone() : at::zeros_like(one.tensor).detach();
      std::vector<at::Tensor> tensors = {sum};
      axis_.group->allreduce(tensors)->wait();
      if (is(Mistake::tie_averaged)) sum.div_(static_cast<double>(one.stages.size()));
      if (mine(one)) one.tensor.mutable_grad().detach().copy_(sum);
    }
  }

  void clip() {
    std::vector<at::Tensor> counted, copies;
    for (const Placed& one : parameters_) {
      if (!mine(one) || !one.tensor.grad().defined()) continue;
      const bool counts = one.stages.front() == axis_.rank || is(Mistake::tie_clipped_twice);
      (counts ? counted : copies).push_back(one.tensor.grad());
    }
    clip_parts(counted, *clip_norm_, at::kCPU, {is(Mistake::clipped_by_stage) ? nullptr : axis_.group.get()}, copies);
  }

  std::vector<at::Tensor> whole(const std::function<at::Tensor(const Placed&)>& choose) const {
    std::vector<int> owners;
    std::vector<Whole> wholes;
    for (const Placed& one : parameters_) {
      owners.push_back(one.stages.front());
      wholes.push_back({one.tensor.sizes().vec(), one.tensor.scalar_type()});
    }
    return from_owners(axis_, at::kCPU, owners, wholes, [&](size_t i) { return choose(parameters_[i]); });
  }

  const Workload& workload_;
  Mistake mistake_;
  Axis axis_, replicas_;
  Replica replica_;
  std::optional<double> clip_norm_;
  Links links_;
  std::vector<Stage> stages_;
  std::vector<Placed> parameters_, buffers_;
  std::vector<Parameter> own_;
  std::optional<Optimizer> optimizer_;
  std::vector<Live> live_;
  std::vector<Transfer> sent_;
};

Mutant mutant(const std::string& name, Mistake mistake, const std::string& killed_by, const std::string& key_term,
              const std::string& workload = "probe-blocks", const std::string& mesh = "pp=3",
              const std::string& model = "") {
  const auto info = [=] {
    return on_axes("pipeline-reference", {"pp", "dp"},
                   [=](const Setup& setup) { return std::make_unique<PipelineReference>(setup, mistake); });
  };
  return on_mesh(name, killed_by, key_term, info, workload, mesh, model);
}

// Returns dpbench's own strategy pp with this schedule.
std::function<StrategyInfo()> product(const std::string& schedule) {
  return [=] {
    StrategyInfo info = strategy_registry().at("pp");
    std::ranges::find(info.params, "schedule", &ParamInfo::name)->fallback = schedule;
    return info;
  };
}

}  // namespace pipeline_mistakes

std::vector<Mutant> pipeline_mutants() {
  using namespace pipeline_mistakes;
  using enum pipeline_mistakes::Mistake;
  return {
      mutant("pipeline-loss-not-divided", not_divided, "accumulation", "not divided"),
      mutant("pipeline-loss-divided-twice", divided_twice, "accumulation", "micro-batches twice"),
      mutant("pipeline-divides-after-each-micro-batch", divided_after_each_micro_batch, "accumulation",
             "divided|each micro-batch"),
      mutant("pipeline-drops-the-last-backward-pass", last_backward_dropped, "accumulation", "embed_positions", "gpt"),
      mutant("pipeline-counts-the-last-micro-batch-alone", only_the_last_counts, "accumulation",
             "last micro-batch|overwrote"),
      mutant("pipeline-sends-before-it-is-ready", sent_before_it_is_ready, "output-value", "another rank"),
      mutant("pipeline-reuses-a-send-buffer", send_buffer_reused, "accumulation", "forward pass"),
      mutant("pipeline-skip-of-the-neighbour", skip_of_the_neighbour, "output-value", "an activation", "skip-model"),
      mutant("pipeline-balance-of-its-own-stage", balance_of_the_own_stage, "output-value", "index 257 of dimension 2",
             "gpt", "pp=2", "tiny-experts"),
      mutant("pipeline-overwrites-a-stage-input", input_overwritten, "accumulation", "last.weight"),
      mutant("pipeline-sends-a-gradient-twice", gradient_sent_twice, "gradient-meaning", "counted twice"),
      mutant("pipeline-sends-the-gradient-of-the-neighbour", gradient_of_the_neighbour, "accumulation", "wide.weight"),
      mutant("pipeline-tie-not-summed", tie_not_summed, "gradient-meaning", "embed_tokens", "gpt"),
      mutant("pipeline-tie-summed-in-each-micro-batch", tie_summed_each_micro_batch, "accumulation", "the shares",
             "gpt"),
      mutant("pipeline-tie-averaged", tie_averaged, "gradient-meaning", "embed_tokens", "gpt"),
      mutant("pipeline-tied-head-not-updated", tie_not_updated, "output-value", "wrong model", "gpt", "pp=2"),
      mutant("pipeline-clips-by-stage", clipped_by_stage, "clip", "changed after"),
      mutant("pipeline-counts-a-tie-twice-in-the-norm", tie_clipped_twice, "clip",
             "tied parameter|embed_tokens|counted 2 times", "gpt"),
      mutant("pipeline-targets-of-the-first-micro-batch", targets_of_the_first, "loss-value", "wrong targets"),
      mutant("pipeline-dropout-of-the-first-micro-batch", ids_of_the_first, "accumulation", "dropout masks", "gpt"),
      mutant("pipeline-buffers-of-stage-0", buffers_of_stage_0, "buffers", "written back", "convnet"),
      mutant("pipeline-first-stage-not-trained", first_stage_not_trained, "optimizer-replay", "not updated", "gpt"),
      mutant("pipeline-loss-of-the-last-micro-batch", loss_of_the_last_micro_batch, "loss-value", "the mean"),
      mutant("pipeline-stages-without-broadcast", stages_without_broadcast, "initial-broadcast", "another rank's"),
      mutant("pipeline-trains-while-evaluating", trains_while_evaluating, "evaluation", "training mode", "convnet"),
      mutant("pipeline-replicas-not-averaged", replicas_not_averaged, "gradient-meaning", "not reduced", "gpt",
             "dp=2,pp=2"),
      mutant("pipeline-averages-over-all-ranks", averaged_over_all_ranks, "gradient-meaning", "averaged over 2", "gpt",
             "dp=2,pp=2"),
      mutant("pipeline-buffers-of-each-replica", buffers_of_each_replica, "buffers", "not broadcast", "convnet",
             "dp=2,pp=2"),
      mutant("pipeline-drops-the-last-weight-gradients", split_last_dropped, "accumulation", "embed_tokens.weight",
             "gpt"),
      mutant("pipeline-weight-gradients-after-the-average", split_after_the_average, "ranks-agree-gradients",
             "every rank", "gpt", "dp=2,pp=2"),
      mutant("pipeline-reuses-an-input-before-the-weight-gradients", split_with_the_next_input, "accumulation",
             "n.1.weight", "mnist-mlp", "pp=2"),
      mutant("pipeline-weight-gradients-once-per-use", split_once_per_use, "gradient-meaning",
             "counted twice|1 of 3|twice.weight", "skip-model"),
      mutant("pipeline-with-split-backward-passes", split, "", "", "gpt"),
      mutant("pipeline-with-split-backward-passes-and-a-skip", split, "", "", "skip-model"),
      mutant("pipeline-right-with-experts", none, "", "", "gpt", "pp=2", "tiny-experts"),
      on_mesh("pp-zb-h1-with-a-skip", "", "", product("zb-h1"), "skip-model", "pp=3", ""),
      on_mesh("pp-zbv-with-a-skip", "", "", product("zbv"), "skip-model", "pp=2", ""),
      mutant("pipeline-right-on-a-grid", none, "", "", "gpt", "dp=2,pp=2"),
      mutant("pipeline-right", none, "", ""),
      mutant("pipeline-right-tied", none, "", "", "gpt"),
      mutant("pipeline-backward-in-reverse", backward_in_reverse, "", "", "gpt"),
  };
}

}  // namespace dpbench::wrong
