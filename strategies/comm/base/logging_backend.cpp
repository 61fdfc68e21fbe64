#include "strategies/comm/base/logging_backend.h"

#include <ATen/ATen.h>

namespace dpbench {

std::string describe(const NamedCall& call, const std::vector<at::Tensor>& tensors) {
  std::string text = call.op;
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  if (!tensors.empty()) text += " of " + std::to_string(count) + " " + c10::toString(tensors.front().scalar_type());
  if (*call.reduction) text += std::string(" (") + call.reduction + ")";
  if (call.root >= 0) text += " with root " + std::to_string(call.root);
  return text;
}

const std::vector<at::Tensor>& all_pieces(const std::vector<std::vector<at::Tensor>>& lists,
                                          const std::vector<at::Tensor>& own) {
  // `lists` is empty if the caller passed no list of tensors. That is an error, which the wrapped backend reports.
  return lists.empty() ? own : lists.front();
}

}  // namespace dpbench
