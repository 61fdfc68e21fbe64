// Probes (small test models) in blocks, which sharded strategies gather, run and free one after the other. The
// dimensions of the tensors are primes, so no world of 2 to 6 ranks cuts all of them evenly. The last weight has two
// rows, so in a world of more than two ranks some ranks store none of it.
#include <memory>
#include <string>

#include "harness/conform/probes/probe.h"

namespace dpbench::probes {
namespace {

// A model in three blocks. The first block is frozen, and the second one has a parameter without elements. If
// `optional`, only batches with an even first id use the third block, so some ranks leave it out, and in every third
// step no batch uses it.
template <bool optional>
class InBlocks : public Model {
 public:
  explicit InBlocks(uint64_t seed) {
    Seeded random(seed);
    const auto still = layer("still", {{"weight", random({7, 5})}}, /*trained=*/false);
    add_block({"still", {still}, [still](const at::Tensor& x, const Context&) {
                 return at::tanh(at::linear(x, still->parameters()[0]));
               }});
    const auto wide = layer("wide", {{"weight", random({11, 7})}, {"bias", random({11})}, {"none", random({0, 7})}});
    add_block({"wide", {wide}, [wide](const at::Tensor& x, const Context&) {
                 const auto own = wide->parameters();
                 return at::tanh(at::linear(x, own[0], own[1])) + at::linear(x, own[2]).sum();
               }});
    if (optional) {
      const auto extra = layer("extra", {{"weight", random({11, 11})}, {"bias", random({11})}});
      add_block({"extra", {extra}, [extra](const at::Tensor& x, const Context& context) {
                   const auto own = extra->parameters();
                   const bool used = context.step % 3 != 1 && context.ids[0].item<int64_t>() % 2 == 0;
                   return used ? at::tanh(at::linear(x, own[0], own[1])) : x;
                 }});
    }
    const auto last = layer("last", {{"weight", random({2, 11})}, {"scale", random({})}});
    add_block({"last", {last}, [last](const at::Tensor& x, const Context&) {
                 const auto own = last->parameters();
                 return at::linear(x, own[0]) * own[1];
               }});
  }

 private:
  std::shared_ptr<torch::nn::Module> layer(const std::string& name,
                                           const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                                           bool trained = true) {
    auto made = register_module(name, std::make_shared<torch::nn::Module>(name));
    for (const auto& [its_name, value] : parameters) made->register_parameter(its_name, value, trained);
    return made;
  }
};

const RegisterWorkload blocks{
    probe<InBlocks<false>>("probe-blocks", "three blocks, of which the first is frozen", {5}, 2, probe_adamw())};
const RegisterWorkload optional_block{probe<InBlocks<true>>(
    "probe-optional", "four blocks: the first is frozen, and only some samples use the third", {5}, 2, probe_adamw())};

}  // namespace
}  // namespace dpbench::probes
