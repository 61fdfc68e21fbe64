// Strategies whose traffic differs from their formula. Most compute correct gradients, so no other check fails. Also
// contains correct strategies that split the same bytes into other calls.
#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

using Change = std::function<void(Parts&)>;

// Returns a factory of the reference strategy, with a traffic formula and with `change` applied to its parts.
std::function<StrategyInfo()> counted(const Change& change, const TrafficFormula& formula = reference_traffic) {
  return [made = with(change), formula] {
    StrategyInfo info = made();
    info.traffic = formula;
    return info;
  };
}

void average(Run& run, at::Tensor& flat) {
  run.all_reduce(flat);
  flat.div_(run.world);
}

void reduce_twice(Parts& parts) {
  parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
    average(run, flat);
    average(run, flat);  // a second average, which changes nothing, because all ranks already hold the mean
  };
}

void reduce_twice_in_step_5(Parts& parts) {
  parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
    average(run, flat);
    if (run.step == 5) average(run, flat);
  };
}

void reduce_in_float64(Parts& parts) {
  parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
    at::Tensor wide = flat.to(at::kDouble);
    average(run, wide);
    flat.copy_(wide);
  };
}

// A mistake: does not reduce the last bucket, and sends the first bucket with 8 extra elements.
void pad_one_bucket_and_leave_out_another(Parts& parts) {
  parts.reduce = [](Run& run, at::Tensor& flat, size_t bucket) {
    if (bucket + 1 == run.parts.buckets(run).size()) return;
    at::Tensor sent = bucket == 0 ? at::cat({flat, at::zeros({8}, flat.options())}) : flat.clone();
    average(run, sent);
    flat.copy_(sent.narrow(0, 0, flat.numel()));
  };
}

void gather_gradients_too(Parts& parts) {
  parts.after_reduce = [](Run& run) {
    std::vector<at::Tensor> mine = {run.gradients[0].contiguous()};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int rank = 0; rank < run.world; ++rank) all[0].push_back(at::empty_like(mine[0]));
    run.group->allgather(all, mine)->wait();
  };
}

void broadcast_parameters_too(Parts& parts) {
  parts.update = [right = parts.update](Run& run) {
    right(run);
    for (const at::Tensor& leaf : run.leaves) run.broadcast(leaf.detach());
  };
}

void broadcast_buffers_twice(Parts& parts) {
  parts.sync_buffers = [right = parts.sync_buffers](Run& run) {
    right(run);
    right(run);
  };
}

void reduce_each_parameter_alone(Parts& parts) {
  parts.buckets = [](Run& run) {
    std::vector<std::vector<size_t>> each;
    for (size_t i = 0; i < run.leaves.size(); ++i) each.push_back({i});
    return each;
  };
}

// Correct: the harness calls gradients() after the step, so the collectives of this accessor are not part of the step's
// traffic.
void gather_in_an_accessor(Parts& parts) {
  parts.reported_gradients = [right = parts.reported_gradients](Run& run) {
    NamedTensors gradients = right(run);
    for (auto& [name, gradient] : gradients)
      if (gradient.defined()) run.broadcast(gradient);
    return gradients;
  };
}

// Traffic formula of a strategy that reduces gradients over the mesh's axis dp, and everything else over all ranks.
std::optional<std::vector<Traffic>> traffic_of_axes(const TrafficQuery& query) {
  auto all = *reference_traffic(query);
  all[1].axis = all[2].axis = "world";
  return all;
}

void reduce_over_the_data_axis(Parts& parts) {
  parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
    std::vector<at::Tensor> tensors = {flat};
    const Axis& axis = run.mesh.axis("dp");
    axis.group->allreduce(tensors)->wait();
    flat.div_(axis.size);
  };
}

}  // namespace

std::vector<Mutant> traffic_mutants() {
  constexpr char check[] = "collective-bytes";
  const auto on_mesh = [](Mutant mutant) {
    mutant.mesh = "dp=2,tp=2";
    return mutant;
  };
  return {
      {"everything-reduced-twice", check, "allreduce over dp carried 1.98", counted(reduce_twice)},
      {"reduced-twice-in-step-5", check, "step 5, scenario twenty", counted(reduce_twice_in_step_5)},
      {"reduced-in-float64-instead-of-float32", check, "allreduce over dp carried 1.96", counted(reduce_in_float64)},
      {"a-bucket-left-out-and-another-padded", check, "allreduce over dp carried 0.",
       counted(pad_one_bucket_and_leave_out_another)},
      {"gradients-gathered-too", check, "allgather over dp is not", counted(gather_gradients_too)},
      {"parameters-broadcast-too", check, "broadcast over dp is not", counted(broadcast_parameters_too)},
      {"buffers-broadcast-twice", check, "broadcast over dp carried 2 times", counted(broadcast_buffers_twice),
       "probe-batch-norm"},
      {"the-declared-broadcast-left-out", check, "broadcast over dp was not",
       counted([](Parts& parts) { parts.sync_buffers = [](Run&) {}; }), "probe-batch-norm"},
      on_mesh({"reduced-over-all-ranks-instead-of-an-axis", check, "allreduce over dp was not",
               counted([](Parts&) {}, traffic_of_axes)}),
      {"traffic-as-declared", "", "", counted([](Parts&) {})},
      {"traffic-as-declared-with-buffers", "", "", counted([](Parts&) {}), "probe-batch-norm"},
      {"many-small-buckets", "", "", counted(reduce_each_parameter_alone)},
      {"gradients-gathered-by-an-accessor", "", "", counted(gather_in_an_accessor)},
      on_mesh({"traffic-of-axes-as-declared", "", "", counted(reduce_over_the_data_axis, traffic_of_axes)}),
  };
}

}  // namespace dpbench::wrong
