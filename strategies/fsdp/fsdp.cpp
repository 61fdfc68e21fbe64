// The strategies "fsdp" (ZeRO stage 3: parameters, gradients and optimizer state are sharded) and "zero2" (gradients
// and optimizer state). On a mesh with the axes dp and shard, each group of the axis shard holds the whole model
// (HSDP).
#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/exchange/broadcast.h"
#include "strategies/fsdp/options.h"
#include "strategies/fsdp/passes.h"
#include "strategies/parts/same_model.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/unused_parameters.h"

namespace dpbench::fsdp {
namespace {

class Fsdp : public Strategy {
 public:
  Fsdp(const Setup& setup, Stage stage)
      : name_(stage == Stage::fsdp ? "fsdp" : "zero2"),
        workload_(setup.workload),
        options_(options_of(stage, setup.params, setup.dtype)),
        mesh_(setup.mesh),
        shard_(axis_of(shard_axis(mesh_.shape(), options_.reshard))),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        clip_norm_(setup.clip_norm) {
    if (options_.reshard == Reshard::shard && mesh_.group()->getSize() > 1 && mesh_.axis("shard").size == 1)
      throw UsageError("fsdp.reshard=shard needs a mesh with an axis shard, such as --mesh dp=2,shard=2");
    replica_.trainable_tensors(name_);  // throws if nothing is trainable
    require_same_model(*mesh_.group(), replica_);
    broadcast_from(0, mesh_.group(), replica_.detached());
    const Axis copies = mesh_.axis(replica_axis(mesh_.shape(), options_.reshard));
    passes_.emplace(replica_, options_,
                    Storage{.shard = shard_,
                            .replica = copies,
                            .between = options_.reshard == Reshard::shard ? mesh_.axis("shard") : Axis(),
                            .whole = stage == Stage::zero2,
                            .gathered = options_.gathered,
                            .reduced = options_.reduced,
                            .poison = options_.poison});
    share_ = 1.0 / static_cast<double>(shard_.size * copies.size);
    make_optimizer();
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty()) throw std::runtime_error(name_ + ": this rank has no samples in step " + std::to_string(step));
    for (Unit* unit : passes_->units()) unit->clear_gradients();
    share_buffers(phases);
    StepResult result;
    const auto loss_of = [&](const at::Tensor& output, const at::Tensor& target) {
      return micro_loss(workload_, output, target, micro.size());
    };
    for (size_t k = 0; k < micro.size(); ++k) {
      phases.enter(Phase::data);
      const Batch mine = replica_.to_device(micro[k]);
      StepResult one = passes_->train(step, mine, loss_of, share_, k + 1 == micro.size(), phases);
      add_micro(result, std::move(one.output), std::move(one.loss));
    }
    passes_->end_step(phases);
    const at::NoGradGuard no_grad;
    const std::vector<ShardedParameter> all = trained();
    find_gradients(all);
    if (clip_norm_) clip_parts(gradients_of(all), *clip_norm_, replica_.device(), shard_.group.get());
    phases.enter(Phase::optimizer);
    optimizer_->step(step);
    for (const ShardedParameter& one : all) one.rows.mutable_grad().reset();  // drop the views of the gradient shards
    if (options_.stage == Stage::fsdp) return result;
    phases.enter(Phase::communication);
    passes_->update();
    return result;
  }

  at::Tensor forward(const Batch& mine) override {
    const auto& model = replica_.shared_model();
    model->eval();
    at::Tensor output = passes_->evaluate(replica_.to_device(mine));
    model->train();
    return output;
  }

  NamedTensors parameters() override {
    return by_all_names(joined([](const ShardedParameter& one) { return one.rows; }));
  }

  NamedTensors gradients() override {
    const NamedTensors found = joined([&](const ShardedParameter& one) { return one.gradient; });
    NamedTensors all;
    for (const auto& [name, tensor] : replica_.trainable()) {
      const at::Tensor* gradient = find(found, name);
      const bool dropped = std::ranges::count(dropped_, name) > 0;
      all.emplace_back(name, gradient && !dropped ? *gradient : at::Tensor());
    }
    return all;
  }

  NamedTensors buffers() override { return replica_.buffers(); }

  NamedTensors state() override {
    NamedTensors all;
    const NamedTensors own = optimizer_->state();
    for (const std::string& slot : state_slots(workload_.optimizer())) {
      if (slot == "step") {
        const auto counts = largest_step_counts(replica_.trainable(), own, replica_.device(), shard_.group.get());
        for (size_t i = 0; i < counts.size(); ++i) all.emplace_back(replica_.trainable()[i].name + ".step", counts[i]);
        continue;
      }
      for (auto& [name, tensor] : joined([&](const ShardedParameter& one) { return slot_of(own, one, slot); }))
        all.emplace_back(name + "." + slot, std::move(tensor));
    }
    return all;
  }

  void load(const Snapshot& snapshot) override {
    const NamedTensors wanted = parameters(),
                       state_wanted = state();  // copies: load_into() checks the snapshot before it fills them
    load_into(wanted, snapshot.parameters, "parameter");
    load_into(state_wanted, snapshot.state, "optimizer state");
    load_into(buffers(), snapshot.buffers, "buffer");
    for (Unit* unit : passes_->units()) unit->set([&](const std::string& name) { return *find(wanted, name); });
    const NamedTensors own = optimizer_->state();
    for (Unit* unit : passes_->units())
      for (const ShardedParameter& one : unit->parameters())
        for (const std::string& slot : state_slots(workload_.optimizer())) {
          const at::Tensor *mine = find(own, one.name + "." + slot), *value = find(state_wanted, one.name + "." + slot);
          if (mine && value) mine->copy_(slot == "step" ? *value : unit->rows_in(one.name, *value)->view_as(*mine));
        }
  }

  std::map<std::string, std::vector<double>> figures() override {
    const auto peak = static_cast<double>(passes_->take_peak());
    if (peak == 0) return {};  // nothing is freed, so nothing is gathered
    return {{"gathered_parameters_peak_bytes", {peak}}};
  }

 private:
  // Returns an axis of the mesh, or all ranks for "world".
  Axis axis_of(const std::string& name) const {
    if (name != "world") return mesh_.axis(name);
    return {.name = name, .group = mesh_.group(), .rank = mesh_.group()->getRank(), .size = mesh_.group()->getSize()};
  }

  std::vector<ShardedParameter> trained() {
    std::vector<ShardedParameter> all;
    for (Unit* unit : passes_->units())
      for (ShardedParameter& one : unit->parameters())
        if (one.trained) all.push_back(std::move(one));
    return all;
  }

  void make_optimizer() {
    std::vector<Parameter> rows;
    std::vector<int64_t> dimensions;
    const std::vector<ShardedParameter> all = trained();
    for (const auto& [name, tensor] : replica_.trainable()) {
      const auto one = std::ranges::find(all, name, &ShardedParameter::name);
      if (one->rows.numel() == 0 && tensor.numel() > 0) continue;  // this rank has no rows of it
      rows.push_back({name, one->rows});
      dimensions.push_back(tensor.dim());
    }
    optimizer_.emplace(workload_.optimizer(), rows, dimensions);
  }

  void share_buffers(Phases& phases) {
    const auto buffers = replica_.buffer_list();
    phases.enter(Phase::communication);
    if (!buffers.empty() && shard_.size > 1) broadcast_from(0, mesh_.group(), buffers);
  }

  // Gives the optimizer the gradients of this rank's rows, except of parameters that no rank used.
  void find_gradients(const std::vector<ShardedParameter>& all) {
    const std::vector<bool> used = used_by_any(all);
    dropped_.clear();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].rows.mutable_grad() = used[i] ? all[i].gradient : at::Tensor();
      if (!used[i]) dropped_.push_back(all[i].name);
    }
  }

  static std::vector<at::Tensor> gradients_of(const std::vector<ShardedParameter>& parameters) {
    std::vector<at::Tensor> gradients;
    for (const ShardedParameter& one : parameters)
      if (one.rows.grad().defined()) gradients.push_back(one.rows.grad());
    return gradients;
  }

  std::vector<bool> used_by_any(const std::vector<ShardedParameter>& trained) const {
    std::vector<bool> used;
    std::vector<std::string> unused;
    for (const ShardedParameter& one : trained) {
      used.push_back(one.used);
      if (!one.used) unused.push_back(one.name);
    }
    if (!options_.find_unused) {
      if (!unused.empty()) refuse_unused(name_, unused, ". Use --param " + name_ + ".find_unused=on.");
      return used;
    }
    if (shard_.size == 1) return used;
    std::vector<int32_t> flags(used.begin(), used.end());
    std::vector<at::Tensor> sum = {at::tensor(flags).to(replica_.device())};
    mesh_.group()->allreduce(sum)->wait();
    const at::Tensor counts = sum[0].cpu();
    for (size_t i = 0; i < used.size(); ++i) used[i] = counts.const_data_ptr<int32_t>()[i] > 0;
    return used;
  }

  NamedTensors joined(const std::function<at::Tensor(const ShardedParameter&)>& choose) {
    NamedTensors all;
    for (Unit* unit : passes_->units())
      unit->join(choose, [&](const std::string& name, const at::Tensor& whole) {
        if (whole.defined()) all.emplace_back(name, whole);
      });
    return all;
  }

  // Lists each parameter under all of its names, in the model's order.
  NamedTensors by_all_names(const NamedTensors& tensors) const {
    const NamedTensors names = replica_.parameters();
    NamedTensors all;
    for (const auto& [name, parameter] : names) {
      const auto first =
          std::ranges::find_if(names, [&](const auto& other) { return other.second.is_same(parameter); });
      all.emplace_back(name, *find(tensors, first->first));
    }
    return all;
  }

  static at::Tensor slot_of(const NamedTensors& own, const ShardedParameter& one, const std::string& slot) {
    if (!one.trained) return {};
    const at::Tensor* found = find(own, one.name + "." + slot);
    return found ? *found : at::zeros_like(one.rows);
  }

  std::string name_;
  const Workload& workload_;
  Options options_;
  Mesh mesh_;
  Axis shard_;
  Replica replica_;
  std::optional<double> clip_norm_;
  std::optional<Passes> passes_;  // made after rank 0's values have been broadcast
  double share_ = 1;
  std::optional<Optimizer> optimizer_;  // has state for this rank's rows only
  std::vector<std::string> dropped_;    // parameters that no rank used in the last step
};

StrategyInfo info_of(Stage stage) {
  const bool all = stage == Stage::fsdp;
  return {
      .name = all ? "fsdp" : "zero2",
      .summary = all ? "sharded parameters, gradients and optimizer state, gathered unit by unit (ZeRO stage 3)"
                     : "ddp with sharded gradients and optimizer state (ZeRO stage 2)",
      .parallelism = Parallelism::ranks,
      .gradient = Gradient::mean_of_means,
      .buffers = Buffers::rank0,
      .axes = {"dp", "shard"},
      .params = parameters(stage),
      .settings = settings(stage),
      .make = [stage](const Setup& setup) -> std::unique_ptr<Strategy> { return std::make_unique<Fsdp>(setup, stage); },
      .live_parameters = [stage](const TrafficQuery& query) { return live_parameters(stage, query); },
      .traffic = [stage](const TrafficQuery& query) { return traffic(stage, query); },
      .collective_evaluation = all,
      .promise = [stage](StrategyInfo& info, const Params& params) { promise(stage, info, params); },
      .variants = variants(stage)};
}

const RegisterStrategy fsdp_strategy{info_of(Stage::fsdp)};
const RegisterStrategy zero2_strategy{info_of(Stage::zero2)};

}  // namespace
}  // namespace dpbench::fsdp
