#include "strategies/tensor/options.h"

#include <algorithm>

#include "strategies/api/parts/flat.h"
#include "strategies/tensor/tensors.h"
#include "workloads/base/error.h"

namespace dpbench::tensor {
namespace {

// Returns the number of calls that exchange activations: leave() makes one for each chunk in the forward pass, enter()
// one in the backward pass.
int64_t calls_of(const SplitCalls& left, const SplitCalls& entered, const Options& options, const RankShare& share) {
  int64_t calls = share.passes() * entered.calls;
  for (const int64_t samples : share.parts) calls += std::min(samples, options.chunks) * left.calls;
  return calls;
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
  const SplitCalls left = share.sum_of(plan.left), entered = share.sum_of(plan.entered);
  // Bytes of a tensor with one element for each sample of the step.
  const int64_t size = query.samples * static_cast<int64_t>(c10::elementSize(query.dtype));
  const int64_t of_token = size * (left.elements + entered.elements) / share.sequence;
  const int64_t calls = calls_of(left, entered, options, share);
  std::vector<Traffic> all;
  if (options.sequence) {
    // With sequence parallelism, each activation is all-gathered in one of the two passes and reduce-scattered in the
    // other. Shorter pieces of the sequence are padded.
    const int64_t piece = of_token * even_pieces(share.tokens, tp.size).front();
    all.push_back({"tp", "allgather", piece, calls});
    all.push_back({"tp", "reduce_scatter", piece * tp.size, calls});
  } else {
    all.push_back({"tp", "allreduce", of_token * share.tokens, calls});
  }
  for (const SplitCalls& of_loss : {plan.totals, plan.maxima}) {
    if (!share.has_loss) continue;
    const bool by_token = of_loss.elements % share.sequence == 0;
    const int64_t elements = by_token ? of_loss.elements / share.sequence * share.tokens : of_loss.elements;
    all.push_back({"tp", "allreduce", size * elements, share.passes() * of_loss.calls});
  }
  // The gradients of some parameters that are not cut are summed over tp, too.
  const CutTensors cuts(plan, tp);
  NamedTensors partial = share.parameters;
  std::erase_if(partial, [&](const auto& one) { return !cuts.is_partial(one.first, options.sequence); });
  all.push_back({"tp", "allreduce", flat_bytes(query, partial), flat_buffers(query, partial)});
  return all;
}

}  // namespace dpbench::tensor
