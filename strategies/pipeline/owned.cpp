#include "strategies/pipeline/owned.h"

#include <ATen/ATen.h>

#include "strategies/api/parts/broadcast.h"

namespace dpbench::pipeline {

std::vector<at::Tensor> from_owners(const Axis& axis, at::Device device, const std::vector<int>& owners,
                                    const std::vector<Whole>& wholes, const std::function<at::Tensor(size_t i)>& mine) {
  std::vector<at::Tensor> all(owners.size());
  std::vector<int32_t> defined(owners.size(), 0);
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != axis.rank) continue;
    all[i] = mine(i);
    if (!all[i].defined()) continue;
    defined[i] = 1;
    all[i] = all[i].detach().clone(at::MemoryFormat::Contiguous);
  }
  if (axis.size == 1 || owners.empty()) return all;
  std::vector<at::Tensor> flags = {at::tensor(defined).to(device)};
  axis.group->allreduce(flags)->wait();
  const at::Tensor known = flags[0].cpu();
  for (int root = 0; root < axis.size; ++root) {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] != root || known.const_data_ptr<int32_t>()[i] == 0) continue;
      if (root != axis.rank)
        all[i] = at::empty(wholes[i].sizes, at::TensorOptions().dtype(wholes[i].dtype).device(device));
      tensors.push_back(all[i]);
    }
    if (!tensors.empty()) broadcast_from(root, axis.group, tensors);
  }
  return all;
}

}  // namespace dpbench::pipeline
