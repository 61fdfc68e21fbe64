#include "strategies/sync_batch_norm.h"

#include "workloads/layers/batch_norm.h"

namespace dpbench {

void synchronise_batch_norm(Model& model, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (group->getSize() == 1) return;  // then it is plain BatchNorm
  for (const auto& module : model.modules(/*include_self=*/true))
    if (const auto norm = std::dynamic_pointer_cast<BatchNorm>(module))
      norm->set_reduce([group](at::Tensor& sums) {
        std::vector<at::Tensor> tensors = {sums};
        group->allreduce(tensors)->wait();
      });
}

}  // namespace dpbench
