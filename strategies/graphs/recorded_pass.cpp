// A replica's forward and backward pass as two CUDA graphs. There are two because the loss of all replicas is computed
// between them. The graphs read samples and the output's gradient from fixed addresses, and write the output and the
// parameters' gradients to fixed addresses.
#include "strategies/graphs/recorded_pass.h"

#include <optional>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "strategies/graphs/packed_batches.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench::dp {
namespace {

class RecordedPass : public Pass {
 public:
  RecordedPass(const Replica& replica, StepRecorder& recorder) : replica_(replica), recorder_(recorder) {}

  // Copies the samples of the next pass to their fixed addresses. A replica computes no loss and needs no targets
  // (labels), so Batch::target holds the step number instead.
  void load(int64_t step, const Batch& batch, bool first_of_step) override {
    if (first_of_step) ++steps_;
    const Batch all{batch.input, at::full({1}, step, at::kLong), batch.ids};
    const std::span<const Batch> one(&all, 1);
    const auto [found, first] = shapes_.try_emplace(shape_of(batch.input));
    current_ = &found->second;
    if (first) current_->first_step = steps_, current_->batch.emplace(one, replica_.device(), replica_.storage());
    current_->batch->load(one);
    mode_ = current_->first_step == steps_ ? Mode::eager : current_->backward ? Mode::replaying : Mode::recording;
  }

  bool runs_alone() const override { return mode_ == Mode::recording; }

  at::Tensor forward() override {
    ShapeState& state = *current_;
    const auto compute = [this, &state] {
      const Batch& batch = state.batch->micro().front();
      const RecordedStep number(batch.target);
      state.live_output = replica_.forward(/*step=*/0, batch);
      state.output = state.live_output.detach();
    };
    if (mode_ == Mode::recording) state.forward = recorder_.record(compute);
    mode_ == Mode::eager ? compute() : state.forward->replay();
    return state.output;
  }

  void backward(const at::Tensor& slope, bool only_pass) override {
    ShapeState& state = *current_;
    if (mode_ == Mode::eager)
      return torch::autograd::backward({std::exchange(state.live_output, {})}, {slope.to(replica_.device())});
    if (!state.slope.defined()) state.slope = at::empty(state.output.sizes(), state.output.options());
    state.slope.copy_(slope, /*non_blocking=*/true);
    const std::vector<at::Tensor> earlier = take_gradients();
    if (mode_ == Mode::recording)
      state.backward = recorder_.record([this, &state] {
        torch::autograd::backward({std::exchange(state.live_output, {})}, {state.slope});
        state.gradients = take_gradients();
      });
    state.backward->replay();
    add_gradients(earlier, state.gradients, only_pass);
  }

 private:
  enum class Mode { eager, recording, replaying };
  using Shape = std::vector<int64_t>;

  static Shape shape_of(const at::Tensor& input) {
    Shape shape = input.sizes().vec();
    shape.push_back(static_cast<int64_t>(input.scalar_type()));
    return shape;
  }

  // The device memory and CUDA graphs for one input shape.
  struct ShapeState {
    int64_t first_step = 0;
    std::optional<PackedBatches> batch = {};
    // The model's output with its autograd graph, kept until the backward pass has run or has been recorded.
    at::Tensor live_output = {};
    at::Tensor output = {}, slope = {};
    std::vector<at::Tensor> gradients = {};
    std::unique_ptr<StepGraph> forward = {}, backward = {};
  };

  // Takes the parameters' gradients away and returns them, so that the next backward pass writes gradients instead of
  // adding to them.
  std::vector<at::Tensor> take_gradients() const {
    std::vector<at::Tensor> taken;
    for (const Parameter& parameter : replica_.trainable())
      taken.push_back(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
    return taken;
  }

  // Sets each parameter's gradient to earlier + more. only_pass: true if the step has only this pass. Then `more`
  // becomes the gradient without a copy; otherwise it is copied, because the next replay overwrites it.
  void add_gradients(const std::vector<at::Tensor>& earlier, const std::vector<at::Tensor>& more,
                     bool only_pass) const {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums, added;
    for (size_t i = 0; i < more.size(); ++i) {
      at::Tensor& gradient = replica_.trainable()[i].tensor.mutable_grad();
      gradient = earlier[i];
      if (!more[i].defined()) continue;
      if (gradient.defined())
        sums.push_back(gradient), added.push_back(more[i]);
      else
        gradient = only_pass ? more[i] : more[i].clone();
    }
    if (!sums.empty()) at::_foreach_add_(sums, added);
  }

  const Replica& replica_;
  StepRecorder& recorder_;
  int64_t steps_ = 0;
  std::map<Shape, ShapeState> shapes_;
  ShapeState* current_ = nullptr;  // the memory and CUDA graphs for the shape of the samples that were loaded last
  Mode mode_ = Mode::eager;
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
