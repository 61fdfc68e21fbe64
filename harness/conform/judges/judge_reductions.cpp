// Checks a strategy's collectives: the result of each reduction against the inputs of all ranks, the order of the
// calls, and the number of reductions.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "strategies/api/backend.h"

namespace dpbench {
namespace {

struct Reduction {
  std::vector<at::Tensor> inputs, outputs;  // the inputs and outputs of a reduction, one tensor per rank
  bool average;
};

// Returns the largest error of the reduction in units of its rounding bound gamma(R + 1), for R summands and a division
// before or after the sum.
double ratio_to_bound(const Reduction& reduction, const at::Tensor& output) {
  const auto terms = static_cast<double>(reduction.inputs.size());
  at::Tensor sum = at::zeros_like(output, at::kDouble), sizes = at::zeros_like(sum);
  for (const auto& input : reduction.inputs) sum += input.to(at::kDouble), sizes += input.to(at::kDouble).abs();
  if (reduction.average) sum = sum / terms, sizes = sizes / terms;
  if (!output.is_floating_point()) return largest_ratio(output, sum, at::zeros_like(sum));
  const auto type = output.scalar_type();
  return largest_ratio(output, sum, sizes * gamma(terms + 1, unit_roundoff(type)) + terms * smallest_subnormal(type));
}

std::string likely_of_backend(const Reduction& reduction, const at::Tensor& output) {
  at::Tensor sum = at::zeros_like(output, at::kDouble);
  for (const auto& input : reduction.inputs) sum += input.to(at::kDouble);
  const auto terms = static_cast<double>(reduction.inputs.size());
  const auto is = [&](const at::Tensor& other) { return relative_error(output, other, 0) < 1e-5; };
  if (!reduction.average && is(sum / terms)) return "the backend averaged where a sum was requested";
  if (reduction.average && is(sum)) return "the backend summed where a mean was requested";
  for (size_t r = 0; r < reduction.inputs.size(); ++r)
    if (is((sum - reduction.inputs[r].to(at::kDouble)) / (reduction.average ? terms : 1)))
      return "the backend lost the part of rank " + std::to_string(r);
  const at::Tensor due = reduction.average ? sum / terms : sum;
  for (const auto type : {at::kHalf, at::kBFloat16})
    if (largest_ratio(output, due, due.abs() * (4 * unit_roundoff(type)) + smallest_subnormal(type)) <= 1)
      return std::string("the backend rounded to ") + at::toString(type);
  return "the backend lost a part, added it twice, or delivered it late: " + first_difference(output, due);
}

// Collectives of one step in one group of a mesh axis, indexed by rank. Sends and receives are left out, because they
// differ between ranks.
using CallsOfRanks = std::vector<std::vector<Collective>>;
struct Group {
  std::vector<int> ranks;  // global numbers of the group's ranks
  CallsOfRanks calls;
};
struct AxisCalls {
  std::string axis;
  std::vector<Group> groups;
};

Group calls_of_group(const Trial& trial, size_t step, const std::string& axis, const std::vector<int>& ranks) {
  Group group{.ranks = ranks, .calls = {}};
  for (const int rank : ranks) {
    group.calls.push_back(trial.ranks[static_cast<size_t>(rank)].steps[step].collectives);
    std::erase_if(group.calls.back(),
                  [&](const Collective& call) { return is_point_to_point(call.op) || call.axis != axis; });
  }
  return group;
}

// Returns the collectives of a step on each axis and its parts, and in the group of all ranks.
std::vector<AxisCalls> calls_of_axes(const Trial& trial, size_t step) {
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  std::vector<AxisCalls> all;
  for (const auto& [name, groups] : named_groups(mesh)) {
    AxisCalls& axis = all.emplace_back(AxisCalls{.axis = name, .groups = {}});
    for (const auto& ranks : groups) axis.groups.push_back(calls_of_group(trial, step, name, ranks));
  }
  std::vector<int> everyone(trial.ranks.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  if (mesh.size() > 1) all.push_back({world_axis, {calls_of_group(trial, step, world_axis, everyone)}});
  return all;
}

// Returns a rank's call number `i`; null if the rank made fewer calls.
const Collective* call_at(const std::vector<Collective>& calls, size_t i) {
  return i < calls.size() ? &calls[i] : nullptr;
}

// True if two ranks made the same call. In an alltoall each rank may send another amount.
bool same_call(const Collective* a, const Collective* b) {
  if (!a || !b) return a == b;
  return a->op == b->op && (a->bytes == b->bytes || a->op == CollectiveOp::alltoall);
}

std::string text_of(const Collective* call) {
  return call ? std::string(name_of(call->op)) + " of " + std::to_string(call->bytes) + " bytes" : "nothing";
}

// Returns how many ranks of an axis make the same call as `call` at position `i` of their sequence of calls.
size_t votes(const AxisCalls& axis, const Collective* call, size_t i) {
  size_t count = 0;
  for (const Group& group : axis.groups)
    for (const auto& calls : group.calls) count += same_call(call_at(calls, i), call);
  return count;
}

// Names the first rank of a group with a call that differs from the usual one; an empty string if there is none. The
// usual call at a position is the group's call that most ranks of the axis make there.
std::string mismatch_of(const AxisCalls& axis, const Group& group) {
  size_t most = 0;
  for (const auto& calls : group.calls) most = std::max(most, calls.size());
  for (size_t i = 0; i < most; ++i) {
    size_t usual = 0;
    for (size_t rank = 1; rank < group.ranks.size(); ++rank)
      if (votes(axis, call_at(group.calls[rank], i), i) > votes(axis, call_at(group.calls[usual], i), i)) usual = rank;
    const Collective* due = call_at(group.calls[usual], i);
    for (size_t rank = 0; rank < group.ranks.size(); ++rank)
      if (const Collective* mine = call_at(group.calls[rank], i); !same_call(mine, due))
        return "collective " + std::to_string(i) + " over " + axis.axis + ": rank " +
               std::to_string(group.ranks[rank]) + " calls " + text_of(mine) + ", rank " +
               std::to_string(group.ranks[usual]) + " calls " + text_of(due);
  }
  return "";
}

constexpr char sums_compared[] = "each reduction with the exact sum of the ranks' inputs, in units of rounding";

// True if the collective is a sum or a mean. For other reductions, adds a skipped row: the factor of a premul_sum is
// unknown, and a maximum has no rounding error.
bool judged_as_a_sum(const Collective& collective, Rows& rows) {
  if (collective.sums()) return true;
  rows.skipped("reduction", sums_compared,
               std::string(name_of(collective.op)) + " by " + reduction_name(collective.reduction) +
                   " is neither a sum nor a mean");
  return false;
}

void judge_one(const Reduction& reduction, const std::string& where, Rows& rows) {
  for (size_t rank = 0; rank < reduction.outputs.size(); ++rank) {
    const at::Tensor& output = reduction.outputs[rank];
    rows.measured("reduction", sums_compared, ratio_to_bound(reduction, output), 1,
                  where + ", rank " + std::to_string(rank), [&] { return likely_of_backend(reduction, output); });
    rows.judged(
        "reduction-agrees", "the result of each allreduce on every rank, bit for bit",
        same_bits(output, reduction.outputs[0]),
        [&] { return first_difference(output, reduction.outputs[0]) + where + ", rank " + std::to_string(rank); },
        "ranks sum in different orders");
  }
}

// Checks a reduce, whose sum only its root receives. The evidence does not tell which rank is the root, so the output
// closest to the sum is checked.
void judge_at_the_root(const Reduction& reduction, const std::string& where, Rows& rows) {
  size_t root = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t rank = 0; rank < reduction.outputs.size(); ++rank)
    if (const double ratio = ratio_to_bound(reduction, reduction.outputs[rank]); ratio < least)
      root = rank, least = ratio;
  rows.measured("reduction", sums_compared, least, 1, where + ", on any rank",
                [&] { return likely_of_backend(reduction, reduction.outputs[root]); });
}

// Checks a reduce_scatter, in which rank r receives only the r-th piece of the sum.
void judge_pieces(const CallsOfRanks& ranks, size_t step, size_t i, Rows& rows) {
  const auto collective = [&](size_t rank) -> const Collective& { return ranks[rank][i]; };
  const size_t world = ranks.size();
  if (!judged_as_a_sum(collective(0), rows)) return;
  if (collective(0).input.size() != 1 || collective(0).output.size() != 1)
    return rows.skipped("reduction", sums_compared, "a reduce_scatter of a list of tensors is not supported");
  for (size_t rank = 0; rank < world; ++rank) {
    Reduction reduction{{}, {collective(rank).output[0].flatten()}, collective(0).averages()};
    const int64_t size = reduction.outputs[0].numel();
    for (size_t other = 0; other < world; ++other)
      reduction.inputs.push_back(
          collective(other).input[0].flatten().narrow(0, static_cast<int64_t>(rank) * size, size));
    judge_one(
        reduction,
        ", piece " + std::to_string(rank) + " of collective " + std::to_string(i) + ", step " + std::to_string(step),
        rows);
  }
}

// Checks the results of all reductions of a step in one group, whose ranks made the same calls.
void judge_group(const CallsOfRanks& ranks, size_t step, Rows& rows) {
  const auto& first = ranks[0];
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].output.empty()) continue;  // this collective was recorded without its inputs and outputs
    if (first[i].op == CollectiveOp::reduce_scatter) judge_pieces(ranks, step, i, rows);
    const bool everywhere = first[i].op == CollectiveOp::allreduce;
    if ((!everywhere && first[i].op != CollectiveOp::reduce) || !judged_as_a_sum(first[i], rows)) continue;
    for (size_t t = 0; t < first[i].output.size(); ++t) {
      Reduction reduction{{}, {}, first[i].averages()};
      for (const auto& calls : ranks) {
        reduction.inputs.push_back(calls[i].input[t]);
        reduction.outputs.push_back(calls[i].output[t]);
      }
      (everywhere ? judge_one : judge_at_the_root)(
          reduction, ", collective " + std::to_string(i) + ", step " + std::to_string(step), rows);
    }
  }
}

}  // namespace

void judge_reductions(const Trial& trial, Rows& rows) {
  if (trial.ranks.size() < 2 || !trial.scenario.keep_reductions) return;
  for (size_t step = 0; step < trial.ranks[0].steps.size(); ++step) {
    const auto axes = calls_of_axes(trial, step);
    std::string mismatch;
    for (const AxisCalls& axis : axes)
      for (const Group& group : axis.groups)
        if (mismatch.empty()) mismatch = mismatch_of(axis, group);
    rows.judged("collective-order", "the same collectives in the same order on every rank", mismatch.empty(),
                mismatch + ", step " + std::to_string(step),
                "a rank skips a collective, or calls collectives in another order");
    if (!mismatch.empty()) return;
    for (const AxisCalls& axis : axes)
      for (const Group& group : axis.groups) judge_group(group.calls, step, rows);
  }
}

// Counts reductions, but not over axes on which several ranks compute one replica (e.g. tensor parallelism): these
// ranks also sum activations in every micro-batch.
ReductionCount count_reductions(const Trial& trial) {
  const auto over_activations = [](const std::string& name) {
    const KnownAxis* axis = mesh_text::known_axis(name);
    return axis && !axis->data;
  };
  ReductionCount all{.used = trial.expected.back().used};
  for (const auto& collective : trial.ranks[0].steps.back().collectives)
    if (collective.floating && collective.reduces() && !over_activations(collective.axis))
      ++all.count, all.bytes += collective.bytes;
  return all;
}

void judge_collective_count(const ReductionCount& once, const Trial& accumulated, Rows& rows) {
  const char compared[] = "number of reductions of a step with micro-batches with that of a step without";
  if (accumulated.couples_samples())
    return rows.skipped("collective-count", compared, "BatchNorm also reduces in every forward and backward pass");
  if (accumulated.ranks.size() < 2) return;
  const ReductionCount found = count_reductions(accumulated);
  const auto micro = accumulated.scenario.accumulate;
  if (once.count == 0 && found.count == 0) return rows.skipped("collective-count", compared, "no reduction was called");
  if (once.used != found.used)
    return rows.skipped("collective-count", compared, "the two steps use different parameters");
  const bool each = accumulated.bench.strategy.reduces_each_micro_batch;
  const int64_t count = once.count * (each ? micro : 1), bytes = once.bytes * (each ? micro : 1);
  const bool as_many =
      each ? found.count <= count && found.bytes <= bytes : found.count == count && found.bytes == bytes;
  rows.judged("collective-count", compared, as_many,
              "expected " + std::to_string(count) + " reductions of " + std::to_string(bytes) + " bytes, found " +
                  std::to_string(found.count) + " of " + std::to_string(found.bytes) + " with " +
                  std::to_string(micro) + " micro-batches",
              each || found.count != micro * once.count
                  ? ""
                  : "every micro-batch is reduced, not only the last. If it must be, declare reduces_each_micro_batch");
}

}  // namespace dpbench
