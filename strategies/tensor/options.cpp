#include "strategies/tensor/options.h"

#include <algorithm>

#include "strategies/api/parts/flat.h"
#include "strategies/tensor/tensors.h"
#include "workloads/base/error.h"

namespace dpbench::tensor {
namespace {

// Returns the number of calls that exchange activations: leave() makes one for each chunk, enter() one.
int64_t calls_of(const SplitCalls& left, const SplitCalls& entered, const Options& options, const RankShare& share) {
  int64_t calls = share.passes() * entered.calls;
  for (const int64_t samples : share.parts) calls += std::min(samples, options.chunks) * left.calls;
  return calls;
}

// Returns the bytes of the activations of one sample.
int64_t bytes_of(const SplitCalls& calls, const TrafficQuery& query) {
  return calls.cast * query.element_bytes(/*cast=*/true) + (calls.elements - calls.cast) * query.element_bytes();
}

}  // namespace

std::vector<ParamInfo> parameters() {
  return {{"sequence", "off", "on: cut activations outside of divided layers along the sequence, which saves memory"},
          {"chunks", "1", "parts of a product; each is summed over ranks while the next is computed", "integer from 1"},
          {"verify", "off", "compare tensors that must be equal on all ranks, for tests"}};
}

Options options_of(const Params& params) {
  Options options{.owner = params.owner(),
                  .sequence = params.flag("sequence"),
                  .chunks = params.integer("chunks"),
                  .verify = params.flag("verify")};
  if (options.chunks < 1) throw UsageError(options.owner + ".chunks=" + params.text("chunks") + " must be 1 or more");
  return options;
}

std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const TensorPlan& plan, const Axis& tp,
                             const RankShare& share) {
  std::vector<Traffic> all;
  const auto add = [&](const char* op, Direction of_left, Direction of_entered, int64_t tokens) {
    const SplitCalls left = share.sum_of(plan.left, of_left), entered = share.sum_of(plan.entered, of_entered);
    const int64_t of_token = query.samples * (bytes_of(left, query) + bytes_of(entered, query)) / share.sequence;
    all.push_back({"tp", op, of_token * tokens, calls_of(left, entered, options, share)});
  };
  if (options.sequence) {
    // With sequence parallelism, each activation is all-gathered in one of the two passes and reduce-scattered in the
    // other. Shorter pieces of the sequence are padded.
    const int64_t piece = even_pieces(share.tokens, tp.size).front();
    add("allgather", Direction::backward, Direction::forward, piece);
    add("reduce_scatter", Direction::forward, Direction::backward, piece * tp.size);
  } else {
    add("allreduce", Direction::forward, Direction::backward, share.tokens);
  }
  for (const SplitCalls& of_loss : {plan.totals, plan.maxima}) {
    if (!share.has_loss) continue;
    const bool by_token = of_loss.elements % share.sequence == 0;
    const int64_t elements = by_token ? of_loss.elements / share.sequence * share.tokens : of_loss.elements;
    all.push_back(
        {"tp", "allreduce", query.samples * query.element_bytes() * elements, share.passes() * of_loss.calls});
  }
  // The gradients of some parameters that are not cut are summed over tp, too.
  const CutTensors cuts(plan, tp);
  NamedTensors partial = share.parameters;
  std::erase_if(partial, [&](const auto& one) { return !cuts.is_partial(one.first, options.sequence); });
  all.push_back({"tp", "allreduce", flat_bytes(query, partial), flat_buffers(query, partial)});
  return all;
}

}  // namespace dpbench::tensor
