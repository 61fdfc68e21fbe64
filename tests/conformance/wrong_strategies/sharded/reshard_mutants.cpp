// Mistakes of fsdp with reshard=N, where the N ranks of a group together keep a whole unit for the backward pass.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

using ChangeSetup = std::function<void(Setup&)>;

// Returns a factory of fsdp with reshard=2. Each rank makes its strategy from a setup that `change` has altered.
std::function<StrategyInfo()> keeping_in_pairs(const ChangeSetup& change) {
  return [=] {
    StrategyInfo info = strategy_registry().at("fsdp");
    std::ranges::find(info.params, "reshard", &ParamInfo::name)->fallback = "2";
    info.make = [change, make = info.make](const Setup& setup) {
      Setup own = setup;
      change(own);
      return make(own);
    };
    return info;
  };
}

// A mistake: the backward pass gathers from a distant rank, which keeps the same half of the unit as this rank, instead
// of from the neighbour, which keeps the other half.
void gather_from_distant_ranks(Setup& setup) {
  const Mesh mesh = setup.mesh;
  setup.mesh = mesh.with_groups([&](const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    return axis == "shard" ? mesh.axis("dp").group : group;
  });
}

// A mistake: cuts the parameters over the two ranks of a pair, as HSDP does, instead of over all ranks. The gradients
// are correct, but each rank stores twice as much.
void shard_within_pairs(Setup& setup) {
  setup.params = Params(strategy_registry().at("fsdp").params,
                        {{"reshard", "on"}, {"poison", setup.params.text("poison")}}, setup.params.owner());
}

// A mistake: an allgather sends the input of the previous allgather if both inputs have the same shape.
class StalePartBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 protected:
  WorkPtr around(Call call) override {
    if (call.op != CollectiveOp::allgather) return call.run();
    const at::NoGradGuard no_grad;
    const at::Tensor part = call.input[0].clone();
    if (before_.defined() && before_.sizes() == part.sizes()) call.input[0].copy_(before_);
    before_ = part;
    return call.run();
  }

 private:
  at::Tensor before_;
};

void gather_stale_parts(Setup& setup) {
  setup.mesh = setup.mesh.with_groups([](const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    if (axis != "shard") return group;
    return wrapped_group(group, at::kCPU, [](c10::intrusive_ptr<c10d::Backend> inner) {
      return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<StalePartBackend>(std::move(inner)));
    });
  });
}

}  // namespace

std::vector<Mutant> reshard_mutants() {
  return {
      {"parts-gathered-from-distant-ranks", "gradient-meaning", "parameter",
       keeping_in_pairs(gather_from_distant_ranks), "gpt", 4},
      {"stale-parts-gathered", "gradient-meaning", "parameter", keeping_in_pairs(gather_stale_parts), "gpt", 4},
      {"sharded-within-pairs-only", "collective-bytes", "allgather over world was not called|allreduce over dp",
       keeping_in_pairs(shard_within_pairs), "gpt", 4},
      {"parts-kept-in-pairs", "", "", keeping_in_pairs([](Setup&) {}), "gpt", 4},
  };
}

}  // namespace dpbench::wrong
