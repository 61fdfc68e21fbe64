#include "strategies/parts/sync_batch_norm.h"

#include <memory>
#include <vector>

#include <torch/nn/modules/batchnorm.h>

#include "workloads/base/error.h"
#include "workloads/layers/batch_norm.h"

namespace dpbench {
namespace {

template <class... Norms>
bool is_any_of(const torch::nn::Module& module) {
  return ((dynamic_cast<const Norms*>(&module) != nullptr) || ...);
}

}  // namespace

void synchronise_batch_norm(Model& model, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            const std::string& option) {
  std::vector<std::shared_ptr<BatchNorm>> norms;
  for (const auto& item : model.named_modules()) {
    if (is_any_of<torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl, torch::nn::BatchNorm3dImpl>(*item.value()))
      throw UsageError(option + ": the model's layer " + item.key() +
                       " is torch's own BatchNorm, which cannot share statistics. "
                       "Use BatchNorm of workloads/layers/batch_norm.h.");
    if (auto norm = std::dynamic_pointer_cast<BatchNorm>(item.value())) norms.push_back(std::move(norm));
  }
  if (norms.empty())
    throw UsageError(
        option +
        ": the model has no BatchNorm of workloads/layers/batch_norm.h. Leave the option off, or use a --workload that "
        "has one.");
  if (group->getSize() == 1) return;  // with one rank, plain BatchNorm has the same statistics
  for (const auto& norm : norms)
    norm->set_reduce([group](at::Tensor& sums) {
      std::vector<at::Tensor> tensors = {sums};
      group->allreduce(tensors)->wait();
    });
}

}  // namespace dpbench
