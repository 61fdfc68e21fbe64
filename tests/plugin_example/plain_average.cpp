// The smallest data-parallel strategy: a backward pass, an allreduce of each gradient, a step of SGD.
// "plain-average" divides by the number of ranks as it promises; "plain-sum" promises the same and does not.
#include <ATen/ATen.h>

#include "strategies/strategy.h"

namespace {

using namespace dpbench;

template <bool divide>
class Plain : public Strategy {
 public:
  explicit Plain(const Setup& setup)
      : workload_(setup.workload), group_(setup.group), dtype_(setup.dtype), seed_(setup.step_seed), model_(workload_.model(setup.init_seed)) {
    if (workload_.optimizer().kind != OptimizerSpec::Kind::sgd) throw UsageError("plain: only for SGD");
    if (setup.clip_norm) throw UsageError("plain: does not clip");
    model_->to(dtype_);
    for (auto& parameter : model_->parameters()) {
      std::vector<at::Tensor> value = {parameter.detach()};
      group_->broadcast(value)->wait();
    }
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases&) override {
    model_->zero_grad();
    StepResult result;
    for (const Batch& batch : micro) {
      const at::Tensor output = model_->forward(batch.input.to(dtype_), {seed_, step, batch.ids});
      const bool classes = !batch.target.is_floating_point();
      const at::Tensor loss = workload_.loss(output, classes ? batch.target : batch.target.to(dtype_)) / double(micro.size());
      loss.backward();
      add_micro(result, output, loss);
    }
    const at::NoGradGuard no_grad;
    for (auto& parameter : model_->parameters()) {
      std::vector<at::Tensor> gradient = {parameter.mutable_grad()};
      group_->allreduce(gradient)->wait();
      if (divide) gradient[0].div_(group_->getSize());
      std::vector<at::Tensor> value = {parameter};
      at::_fused_sgd_(value, gradient, {}, 0, 0, workload_.optimizer().learning_rate, 0, false, false, false);
    }
    return result;
  }

  at::Tensor forward(const Batch& mine) override {
    const at::NoGradGuard no_grad;
    return model_->forward(mine.input.to(dtype_), {seed_, 0, mine.ids});
  }
  NamedTensors parameters() override { return named(false); }
  NamedTensors gradients() override { return named(true); }
  NamedTensors buffers() override { return {}; }
  NamedTensors state() override { return {}; }

 private:
  NamedTensors named(bool gradients) const {
    NamedTensors list;
    for (const auto& item : model_->named_parameters()) list.emplace_back(item.key(), gradients ? item.value().grad() : item.value());
    return list;
  }

  const Workload& workload_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::ScalarType dtype_;
  uint64_t seed_;
  std::shared_ptr<Model> model_;
};

const RegisterStrategy right{{.name = "plain-average", .summary = "an allreduce for each gradient", .make = make<Plain<true>>}};
const RegisterStrategy wrong{{.name = "plain-sum", .summary = "forgets to divide", .make = make<Plain<false>>}};

}  // namespace
