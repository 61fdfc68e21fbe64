// A pass as two graphs, since between them lies the loss of all replicas. They read rows and the slope of the output
// from places that stay, and write the output and gradients to such.
#include "strategies/graphs/recorded_pass.h"

#include <optional>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "strategies/graphs/packed_rows.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench::dp {
namespace {

class RecordedPass : public Pass {
 public:
  RecordedPass(const Replica& replica, StepRecorder& recorder) : replica_(replica), recorder_(recorder) {}

  // A replica needs no target: in its place the step's number travels with the rows.
  void load(int64_t step, const Batch& rows, bool first_of_step) override {
    if (first_of_step) ++steps_;
    const Batch all{rows.input, at::full({1}, step, at::kLong), rows.ids};
    const std::span<const Batch> one(&all, 1);
    const auto [found, first] = kinds_.try_emplace(shape_of(rows.input));
    kind_ = &found->second;
    if (first) kind_->met = steps_, kind_->rows.emplace(one, replica_.device(), replica_.storage());
    kind_->rows->load(one);
    how_ = kind_->met == steps_ ? How::plain : kind_->backward ? How::replayed : How::recorded;
  }

  bool records() const override { return how_ == How::recorded; }

  at::Tensor forward() override {
    Kind& kind = *kind_;
    const auto compute = [this, &kind] {
      const Batch& rows = kind.rows->micro().front();
      const RecordedStep number(rows.target);
      kind.live = replica_.forward(/*step=*/0, rows);
      kind.output = kind.live.detach();
    };
    if (how_ == How::recorded) kind.forward = recorder_.record(compute);
    how_ == How::plain ? compute() : kind.forward->replay();
    return kind.output;
  }

  void backward(const at::Tensor& slope, bool only) override {
    Kind& kind = *kind_;
    if (how_ == How::plain)
      return torch::autograd::backward({std::exchange(kind.live, {})}, {slope.to(replica_.device())});
    if (!kind.slope.defined()) kind.slope = at::empty(kind.output.sizes(), kind.output.options());
    kind.slope.copy_(slope, /*non_blocking=*/true);
    const std::vector<at::Tensor> earlier = take_gradients();
    if (how_ == How::recorded)
      kind.backward = recorder_.record([this, &kind] {
        torch::autograd::backward({std::exchange(kind.live, {})}, {kind.slope});
        kind.gradients = take_gradients();
      });
    kind.backward->replay();
    give_gradients(earlier, kind.gradients, only);
  }

 private:
  enum class How { plain, recorded, replayed };
  using Shape = std::vector<int64_t>;

  static Shape shape_of(const at::Tensor& input) {
    Shape shape = input.sizes().vec();
    shape.push_back(static_cast<int64_t>(input.scalar_type()));
    return shape;
  }

  // Passes of one shape.
  struct Kind {
    int64_t met = 0;  // in which step
    std::optional<PackedRows> rows = {};
    at::Tensor live = {};  // the output with autograd's graph: until its backward pass has run, or is recorded
    at::Tensor output = {}, slope = {};
    std::vector<at::Tensor> gradients = {};
    std::unique_ptr<StepGraph> forward = {}, backward = {};
  };

  // The next backward pass then writes instead of adding.
  std::vector<at::Tensor> take_gradients() const {
    std::vector<at::Tensor> taken;
    for (const Parameter& parameter : replica_.trainable())
      taken.push_back(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
    return taken;
  }

  // A recording's gradients lie where its next replay writes: only a step's one pass may leave them there.
  void give_gradients(const std::vector<at::Tensor>& earlier, const std::vector<at::Tensor>& more, bool only) const {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums, added;
    for (size_t i = 0; i < more.size(); ++i) {
      at::Tensor& gradient = replica_.trainable()[i].tensor.mutable_grad();
      gradient = earlier[i];
      if (!more[i].defined()) continue;
      if (gradient.defined())
        sums.push_back(gradient), added.push_back(more[i]);
      else
        gradient = only ? more[i] : more[i].clone();
    }
    if (!sums.empty()) at::_foreach_add_(sums, added);
  }

  const Replica& replica_;
  StepRecorder& recorder_;
  int64_t steps_ = 0;
  std::map<Shape, Kind> kinds_;
  Kind* kind_ = nullptr;  // of the rows loaded last
  How how_ = How::plain;
};

}  // namespace

std::unique_ptr<Pass> recorded_pass(const Replica& replica, StepRecorder& recorder) {
  return std::make_unique<RecordedPass>(replica, recorder);
}

PassRecorders::PassRecorders(const std::vector<at::Device>& devices, const MakeRecorder& make,
                             ReplicaThreads& threads) {
  for (const at::Device& device : devices)
    if (auto& recorder = recorders_[device.index()]; !recorder) recorder = make(device);
  std::vector<c10::Stream> streams;
  for (const at::Device& device : devices)
    streams.push_back(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  threads.run(static_cast<int>(devices.size()), [&](int) {
    for (const c10::Stream& stream : streams) c10::impl::VirtualGuardImpl(stream.device_type()).exchangeStream(stream);
  });
}

}  // namespace dpbench::dp
