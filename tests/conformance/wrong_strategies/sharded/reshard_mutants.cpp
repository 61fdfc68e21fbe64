// Mistakes of fsdp with reshard=shard or a number, where the ranks of a group together keep a whole unit for the
// backward pass.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

using ChangeSetup = std::function<void(Setup&)>;

// Returns a factory of fsdp with this value of reshard. Each rank makes its strategy from a setup that `change` has
// altered.
std::function<StrategyInfo()> keeping_parts(const std::string& reshard, const ChangeSetup& change) {
  return [=] {
    StrategyInfo info = strategy_registry().at("fsdp");
    std::ranges::find(info.params, "reshard", &ParamInfo::name)->fallback = reshard;
    info.make = [change, make = info.make](const Setup& setup) {
      Setup own = setup;
      change(own);
      return make(own);
    };
    return info;
  };
}

// A mistake: the backward pass gathers from a distant rank on the axis dp, which keeps the same half of the unit as
// this rank, instead of from the neighbour, which keeps the other half. parts: the mesh's name for the neighbours'
// groups, such as shard/2.
ChangeSetup gather_from_distant_ranks(const std::string& parts) {
  return [=](Setup& setup) {
    const Mesh mesh = setup.mesh;
    setup.mesh = mesh.with_groups([&](const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
      return axis == parts ? mesh.axis("dp").group : group;
    });
  };
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

ChangeSetup gather_stale_parts(const std::string& parts) {
  return [=](Setup& setup) {
    setup.mesh =
        setup.mesh.with_groups([&](const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
          if (axis != parts) return group;
          return wrapped_group(group, at::kCPU, [](c10::intrusive_ptr<c10d::Backend> inner) {
            return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<StalePartBackend>(std::move(inner)));
          });
        });
  };
}

void change_nothing(Setup&) {}

}  // namespace

std::vector<Mutant> reshard_mutants() {
  const auto on = [](const char* mesh, const char* name, const char* killed_by, const char* key_term,
                     const std::function<StrategyInfo()>& strategy) {
    return on_mesh(name, killed_by, key_term, strategy, "gpt", mesh, "");
  };
  return {
      on("dp=2,shard=2", "parts-gathered-from-distant-ranks", "gradient-meaning", "the backward pass is not",
         keeping_parts("shard", gather_from_distant_ranks("shard"))),
      on("dp=2,shard=2", "stale-parts-gathered", "gradient-meaning", "elements are wrong",
         keeping_parts("shard", gather_stale_parts("shard"))),
      on("dp=2,shard=2", "sharded-within-pairs-only", "collective-bytes",
         "allgather over world was not called|allreduce over dp", keeping_parts("shard", shard_within_pairs)),
      on("dp=2,shard=4", "parts-of-hsdp-gathered-from-the-other-replica", "gradient-meaning",
         "the backward pass is not", keeping_parts("2", gather_from_distant_ranks("shard/2"))),
      on("dp=2,shard=4", "stale-parts-of-hsdp-gathered", "gradient-meaning", "elements are wrong",
         keeping_parts("2", gather_stale_parts("shard/2"))),
      on("dp=4", "parts-kept-in-pairs", "", "", keeping_parts("2", change_nothing)),
      on("dp=2,shard=4", "parts-of-hsdp-kept-in-pairs", "", "", keeping_parts("2", change_nothing)),
  };
}

}  // namespace dpbench::wrong
