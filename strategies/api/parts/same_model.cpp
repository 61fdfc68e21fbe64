#include "strategies/api/parts/same_model.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>

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

at::Tensor words_on(at::Device device, int64_t count) {
  return at::zeros({count}, at::TensorOptions().dtype(at::kLong).device(device));
}

// Returns rank 0's text on every rank. It is sent as int64 tensors, which every backend supports.
std::string of_rank0(c10d::ProcessGroup& group, const std::string& mine, at::Device device) {
  constexpr size_t word = sizeof(int64_t);
  std::vector<at::Tensor> box = {words_on(device, 1).fill_(static_cast<int64_t>(mine.size()))};
  group.broadcast(box)->wait();
  const auto bytes = static_cast<size_t>(box[0].item<int64_t>());
  at::Tensor text = words_on(at::kCPU, static_cast<int64_t>(bytes / word + 1));
  std::memcpy(text.mutable_data_ptr<int64_t>(), mine.data(), std::min(bytes, mine.size()));
  box = {text.to(device)};
  group.broadcast(box)->wait();
  const at::Tensor got = box[0].cpu();
  return {reinterpret_cast<const char*>(got.const_data_ptr<int64_t>()), bytes};
}

}  // namespace

void require_same_model(c10d::ProcessGroup& group, const Replica& replica) {
  const std::vector<std::string> mine = forms_of(replica);
  std::string text;
  for (const auto& form : mine) text += form + "\n";
  const std::string first = of_rank0(group, text, replica.device());
  if (first == text) return;
  std::istringstream lines(first);
  std::string theirs;
  for (size_t i = 0; std::getline(lines, theirs) || i < mine.size(); ++i) {
    const std::string here = i < mine.size() ? mine[i] : "nothing more";
    if (here == theirs) continue;
    throw std::runtime_error("this rank's model is not rank 0's: it has " + here + " where rank 0 has " +
                             (theirs.empty() ? "nothing more" : theirs));
  }
}

}  // namespace dpbench
