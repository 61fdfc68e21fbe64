// Strategies that reduce over the wrong group of ranks, on a mesh whose ranks of the axis tp have the same samples.
// Also contains a correct version of each.
#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

constexpr char mesh[] = "dp=3,tp=2";

void sum_over(const Axis& axis, at::Tensor& flat, double divisor) {
  std::vector<at::Tensor> tensors = {flat};
  axis.group->allreduce(tensors)->wait();
  flat.div_(divisor);
}

std::function<StrategyInfo()> reducing(const std::function<void(Run&, at::Tensor&)>& reduce) {
  return with([=](Parts& parts) { parts.reduce = [=](Run& run, at::Tensor& flat, size_t) { reduce(run, flat); }; });
}

void over_the_data_axis(Run& run, at::Tensor& flat) { sum_over(run.mesh.axis("dp"), flat, 3); }

void over_the_other_axis(Run& run, at::Tensor& flat) { sum_over(run.mesh.axis("tp"), flat, 2); }

void over_all_ranks_but_divided_by_replicas(Run& run, at::Tensor& flat) {
  run.all_reduce(flat);
  flat.div_(3);
}

void over_the_first_place_alone(Run& run, at::Tensor& flat) {
  if (run.mesh.axis("tp").rank == 0) over_the_data_axis(run, flat);
}

// A mistake: the last rank skips a collective for which the other ranks of its group wait.
void without_the_last_rank(Run& run, at::Tensor& flat) {
  if (run.rank != 5) over_the_data_axis(run, flat);
}

void over_one_axis_after_the_other(Run& run, at::Tensor& flat) {
  over_the_data_axis(run, flat);
  over_the_other_axis(run, flat);
}

}  // namespace

std::vector<Mutant> mesh_mutants() {
  const auto on_mesh = [](Mutant mutant) {
    mutant.mesh = mesh;
    return mutant;
  };
  return {
      on_mesh({"reduced-over-the-wrong-axis", "gradient-meaning", "not reduced", reducing(over_the_other_axis)}),
      on_mesh({"averaged-over-replicas-after-a-sum-over-ranks", "gradient-meaning", "2 times",
               reducing(over_all_ranks_but_divided_by_replicas)}),
      on_mesh({"reduced-at-one-place-of-the-other-axis", "gradient-meaning", "not reduced",
               reducing(over_the_first_place_alone)}),
      on_mesh({"a-rank-of-a-group-skips-its-collective", "run-completes", "timed out|rank",
               reducing(without_the_last_rank)}),
      on_mesh({"reduced-over-the-data-axis", "", "", reducing(over_the_data_axis)}),
      on_mesh({"reduced-over-all-ranks", "", "", with([](Parts&) {})}),
      on_mesh({"reduced-over-both-axes", "", "", reducing(over_one_axis_after_the_other)}),
  };
}

}  // namespace dpbench::wrong
