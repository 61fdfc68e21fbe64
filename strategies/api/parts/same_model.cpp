#include "strategies/api/parts/same_model.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/parts/same_lines.h"

namespace dpbench {
namespace {

std::vector<std::string> forms_of(const Replica& replica) {
  std::vector<std::string> forms;
  for (const NamedTensors& tensors : {replica.parameters(), replica.buffers()})
    for (const auto& [name, tensor] : tensors)
      forms.push_back(c10::str(name, " of shape ", tensor.sizes(), " and type ", c10::toString(tensor.scalar_type()),
                               tensor.requires_grad() ? "" : " (not trained)"));
  return forms;
}

}  // namespace

void require_same_model(c10d::ProcessGroup& group, const Replica& replica) {
  if (const auto differs = different_line(group, forms_of(replica), replica.device()))
    throw std::runtime_error("this rank's model is not rank 0's: it has " + differs->mine + " where rank 0 has " +
                             differs->of_rank0);
}

}  // namespace dpbench
