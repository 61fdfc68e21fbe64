// logits WORKLOAD MODEL OUT: loads a saved model and writes 64 samples ("input") and the model's output ("output"), for
// comparison with other programs.
#include <cstdio>

#include <torch/torch.h>

#include "workloads/api/workload.h"
#include "workloads/data/tensor_file.h"

namespace dpbench {
namespace {

void load(Model& model, const TensorFile& file) {
  const torch::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) item.value().copy_(file.find(item.key()));
  for (auto& item : model.named_buffers()) item.value().copy_(file.find(item.key()));
}

void write_logits(const std::string& name, const std::string& saved, const std::string& out) {
  const auto workload = workload_registry().at(name).make({});
  const auto model = workload->model(/*seed=*/99);
  load(*model, load_tensors(saved, "MODEL"));
  model->eval();
  const torch::NoGradGuard no_grad;
  const Batch batch = workload->batch(at::arange(64));
  save_tensors(out, {.tensors = {{"input", batch.input}, {"output", model->forward(batch.input, {.ids = batch.ids})}},
                     .metadata = {}});
}

}  // namespace
}  // namespace dpbench

int main(int count, char** words) try {
  if (count != 4) throw std::runtime_error("usage: logits WORKLOAD MODEL OUT");
  dpbench::write_logits(words[1], words[2], words[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "logits: %s\n", error.what());
  return 1;
}
