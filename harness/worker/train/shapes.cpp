#include "harness/worker/train/shapes.h"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "harness/conform/scenario/wrapped_workload.h"

namespace dpbench {
namespace {

// A model that records its input and output shapes. Registers the inner model's parameters, buffers and layers under
// their own names, so strategies see no difference.
class ShapeRecordingModel : public Model {
 public:
  ShapeRecordingModel(std::shared_ptr<Model> model, ShapeLog& log) : model_(std::move(model)), log_(log) {
    for (const auto& item : model_->named_parameters(/*recurse=*/false))
      register_parameter(item.key(), item.value(), item.value().requires_grad());
    for (const auto& item : model_->named_buffers(/*recurse=*/false)) register_buffer(item.key(), item.value());
    for (const auto& item : model_->named_children()) register_module(item.key(), item.value());
  }

  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    at::Tensor output = model_->forward(input, context);
    if (model_->is_training()) log_.add({context.ids.narrow(0, 0, 1), input.sizes().vec(), output.sizes().vec()});
    return output;
  }
  TensorPlan tensor_plan(int ranks) const override { return model_->tensor_plan(ranks); }
  SequencePlan sequence_plan() const override { return model_->sequence_plan(); }
  ExpertPlan expert_plan(int ranks) const override { return model_->expert_plan(ranks); }
  void train(bool on) override {
    Model::train(on);
    model_->train(on);
  }

 private:
  std::shared_ptr<Model> model_;
  ShapeLog& log_;
};

class ShapeRecordingWorkload : public WrappedWorkload {
 public:
  ShapeRecordingWorkload(const Workload& workload, ShapeLog& log) : WrappedWorkload(workload), log_(log) {}
  std::shared_ptr<Model> model(uint64_t seed) const override {
    return std::make_shared<ShapeRecordingModel>(inner_.model(seed), log_);
  }

 private:
  ShapeLog& log_;
};

}  // namespace

void ShapeLog::add(ModelShapes seen) {
  const std::lock_guard lock(mutex_);
  seen_.push_back(std::move(seen));
}

std::vector<ModelShapes> ShapeLog::take(const at::Tensor& ids) {
  std::map<int64_t, int64_t> places;
  for (int64_t i = 0; i < ids.numel(); ++i) places.emplace(ids[i].item<int64_t>(), i);
  const std::lock_guard lock(mutex_);
  auto seen = std::exchange(seen_, {});
  const auto place = [&](const ModelShapes& one) { return places[one.first_id.item<int64_t>()]; };
  std::stable_sort(seen.begin(), seen.end(),
                   [&](const ModelShapes& a, const ModelShapes& b) { return place(a) < place(b); });
  return seen;
}

std::unique_ptr<Workload> shape_recording_workload(const Workload& workload, ShapeLog& log) {
  return std::make_unique<ShapeRecordingWorkload>(workload, log);
}

}  // namespace dpbench
