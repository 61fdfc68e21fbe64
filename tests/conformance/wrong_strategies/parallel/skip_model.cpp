// The workload "skip-model", for wrong pipelines: a connection skips the second of three blocks, and the second block
// uses its weight twice.
#include <ATen/ATen.h>

#include "harness/conform/probes/probe.h"
#include "workloads/layers/linear.h"

namespace dpbench::wrong {
namespace {

constexpr int64_t width = 7;

// Activations between blocks are [samples, 2 * width]: the last block's output, and the first block's output.
class SkipModel : public Model {
 public:
  explicit SkipModel(uint64_t seed) {
    probes::Seeded random(seed);
    const auto first = layer("first", random({width, 5})), twice = layer("twice", random({width, width})),
               last = layer("last", random({2, 2 * width}));
    add_block({"first", {first}, [first](const at::Tensor& x, const Context&) {
                 const at::Tensor y = at::tanh(product(x, *first));
                 return at::cat({y, y}, 1);
               }});
    add_block({"twice", {twice}, [twice](const at::Tensor& x, const Context&) {
                 at::Tensor y = x.narrow(1, 0, width).contiguous();
                 for (int use = 0; use < 2; ++use) y = at::tanh(product(y, *twice));
                 return at::cat({y, x.narrow(1, width, width)}, 1);
               }});
    add_block({"last", {last}, [last](const at::Tensor& x, const Context&) { return product(x, *last); }});
  }

 private:
  std::shared_ptr<torch::nn::Module> layer(const std::string& name, const at::Tensor& weight) {
    auto made = register_module(name, std::make_shared<torch::nn::Module>(name));
    made->register_parameter("weight", weight);
    return made;
  }
  static at::Tensor product(const at::Tensor& x, const torch::nn::Module& layer) {
    return linear(x, layer.parameters()[0], at::Tensor());
  }
};

const RegisterWorkload skip_model{probes::probe<SkipModel>(
    "skip-model", "a connection that skips a block, and a weight used twice", {5}, 2, probes::probe_adamw())};

}  // namespace
}  // namespace dpbench::wrong
