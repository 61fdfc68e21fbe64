// The strategy "dp-upstream": LibTorch's own functions replicate and parallel_apply, as in
// torch::nn::parallel::data_parallel, for comparison with dp. On several devices it clones the whole model for each
// micro-batch, and discards the clones' BatchNorm statistics. Without OpenMP it runs replicas one after the other.
// at::chunk and at::cat replace scatter and gather, which need CUDA. On one device it calls the model directly.
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/parallel/data_parallel.h>

#include "strategies/api/parts/trained.h"

namespace dpbench {
namespace {

// A module wrapper for LibTorch's replicate(), which calls clone() to make a deep copy on another device.
class Clonable : public torch::nn::Module {
 public:
  Clonable(const Workload& workload, std::shared_ptr<Model> model) : workload_(workload), model_(std::move(model)) {
    register_module("model", model_);
  }

  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device) const override {
    const at::NoGradGuard no_grad;
    auto copy = std::make_shared<Clonable>(workload_, workload_.model(/*seed=*/0));
    const auto target = copy->model_->named_parameters(), source = model_->named_parameters();
    for (const auto& item : source) copy_into(target[item.key()], item.value(), device);
    const auto target_buffers = copy->model_->named_buffers(), source_buffers = model_->named_buffers();
    for (const auto& item : source_buffers) copy_into(target_buffers[item.key()], item.value(), device);
    return copy;
  }

  at::Tensor forward(const at::Tensor& input) { return model_->forward(input, context); }

  Context context;

 private:
  static void copy_into(at::Tensor target, const at::Tensor& source, const std::optional<at::Device>& device) {
    target.set_data(source.to(device.value_or(source.device()), /*non_blocking=*/false, /*copy=*/true));
  }

  const Workload& workload_;
  std::shared_ptr<Model> model_;
};

class DpUpstream : public BuiltInStrategy {
 public:
  explicit DpUpstream(const Setup& setup)
      : BuiltInStrategy(setup),
        devices_(setup.devices),
        step_seed_(setup.step_seed),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        module_(std::make_shared<Clonable>(setup.workload, replica_.shared_model())) {
    if (setup.dtype == at::kBFloat16)
      throw Unavailable(
          "dp-upstream: upstream's parallel_apply does not propagate autocast to its threads. Use f32 or f64.");
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    replica_.clear_gradients();
    StepResult result;
    for (const Batch& batch : micro) run(result, step, batch, micro.size(), phases);
    apply_gradients(step, phases);
    return result;
  }

 private:
  void run(StepResult& result, int64_t step, const Batch& batch, size_t micros, Phases& phases) {
    phases.enter(Phase::scatter);
    const Batch here = replica_.to_device(batch);
    const at::Tensor output =
        devices_.size() == 1 ? forward_model(step, here, phases) : forward_clones(step, batch.ids, here, phases);
    const at::Tensor loss = loss_of(output, here.target, micros);
    phases.enter(Phase::backward);
    backward(loss);
    add_micro(result, output, loss);
  }

  at::Tensor forward_model(int64_t step, const Batch& here, Phases& phases) const {
    phases.enter(Phase::forward);
    return replica_.forward(step, here);
  }

  at::Tensor forward_clones(int64_t step, const at::Tensor& all_ids, const Batch& here, Phases& phases) {
    const auto pieces = static_cast<int64_t>(devices_.size());
    const auto ids = all_ids.chunk(pieces);
    auto inputs = here.input.chunk(pieces);
    const std::vector<at::Device> devices(devices_.begin(), devices_.begin() + static_cast<int64_t>(inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs[i].to(devices[i]);
    phases.enter(Phase::communication);
    auto replicas = torch::nn::parallel::replicate(module_, devices);
    for (size_t i = 0; i < replicas.size(); ++i) replicas[i]->context = {step_seed_, step, ids[i]};
    phases.enter(Phase::forward);
    auto outputs = torch::nn::parallel::parallel_apply(replicas, inputs, devices);
    for (at::Tensor& output : outputs) output = output.to(devices_[0]);
    return at::cat(outputs);
  }

  // Runs the backward pass. If a replica has no gradient of a parameter, LibTorch's ReduceAdd throws one of two obscure
  // errors; this function throws an explanation instead.
  static void backward(const at::Tensor& loss) {
    try {
      loss.backward();
    } catch (const c10::Error& error) {
      const std::string_view what = error.what_without_backtrace();
      if (!what.starts_with("All inputs of ReduceAdd") && !what.starts_with("tensor does not have a device")) throw;
      throw Unavailable("dp-upstream: upstream's ReduceAdd needs every replica to use every parameter");
    }
  }

  std::vector<at::Device> devices_;
  uint64_t step_seed_;
  Replica replica_;
  std::shared_ptr<Clonable> module_;
};

const RegisterStrategy dp_upstream{
    {.name = "dp-upstream",
     .summary = "LibTorch's own replicate and parallel_apply: clones the model in each step on several devices",
     .parallelism = Parallelism::replicas,
     .gradient = Gradient::gathered,
     .buffers = Buffers::unchanged,
     .make = make<DpUpstream>}};

}  // namespace
}  // namespace dpbench
