#include "strategies/context/options.h"

#include <algorithm>

#include "strategies/api/parts/flat.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/context/token_cut.h"

namespace dpbench::context {
namespace {

// Numbers of tokens that a rank sends and receives in ring attention of one layer, counted once for each transfer of a
// token's keys and values or of their gradients.
struct Travelling {
  int64_t sent = 0, received = 0;
};

// Counts the tokens of a forward and a backward pass. Keys and values travel in both passes, their gradients only in
// the backward pass.
Travelling tokens_on_the_way(const TokenCut& cut, int ranks, int rank) {
  Travelling tokens;
  const auto count = [&](int hop) { return cut.count((rank + ranks - hop % ranks) % ranks); };
  for (int hop = 0; hop < ranks; ++hop) {
    const int64_t passes = hop + 1 < ranks ? 3 : 1;
    tokens.sent += passes * count(hop);
    tokens.received += passes * count(hop + 1);
  }
  return tokens;
}

}  // namespace

std::vector<ParamInfo> parameters() {
  return {
      {"kind", "ring", "attention under cp. ring: keys and values travel; ulysses: ranks have all tokens of some heads",
       "ring|ulysses"},
      {"zigzag", "on", "ring: two pieces of the sequence on each rank, an early and a late one; off: one piece"},
      {"poison", "off", "fill received tensors with NaN until they arrive, for tests"}};
}

Options options_of(const Params& params) {
  return {.owner = params.owner(),
          .kind = chosen<Kind>(params, "kind", {{"ring", Kind::ring}, {"ulysses", Kind::ulysses}}),
          .zigzag = params.flag("zigzag"),
          .poison = params.flag("poison")};
}

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query) {
  const Options options = options_of(query.params);
  // The strategy cp has no traffic formula under autocast, because each layer chooses the dtype of its activations, or
  // with recomputation, because some activations are then exchanged a second time.
  if (query.dtype == at::kBFloat16 || query.model.recompute() > 0) return std::nullopt;
  const int ranks = size_of(query.mesh, "cp");
  std::vector<Traffic> all;
  if (size_of(query.mesh, "dp") > 1)
    all = {{"dp", "broadcast", query.bytes_of(named_buffers(query.model))},
           {"dp", "allreduce", flat_bytes(query), flat_buffers(query)}};
  if (ranks == 1) return all;
  const SequencePlan plan = query.model.sequence_plan();
  const auto size = static_cast<int64_t>(c10::elementSize(query.dtype));
  // On the mesh axis cp, a rank sums its gradients in one allreduce and the loss of each micro-batch in another.
  all.push_back(
      {"cp", "allreduce", flat_bytes(query) + query.accumulate * size, flat_buffers(query) + query.accumulate});
  // Bytes of one attention head's values for one token, summed over all samples and layers.
  const int64_t heads_bytes = query.samples * plan.layers * plan.head_size * size;
  if (options.kind == Kind::ring) {
    const TokenCut cut(plan.tokens, ranks, options.zigzag);
    const Travelling tokens = tokens_on_the_way(cut, ranks, place_on(query.mesh, "cp", query.rank));
    const int64_t bytes = 2 * plan.kv_heads * heads_bytes;  // bytes of the keys and values of one token
    all.push_back({"cp", "send", tokens.sent * bytes});
    all.push_back({"cp", "recv", tokens.received * bytes});
    return all;
  }
  // Ulysses attention exchanges queries, keys, values and outputs, in the forward and in the backward pass. Each rank's
  // piece is padded to the size of the largest piece.
  const int64_t shared = plan.kv_heads < ranks ? plan.heads : plan.kv_heads;
  const int64_t most = even_pieces(plan.tokens, ranks).front();
  const int64_t heads =
      even_pieces(plan.heads, ranks, plan.heads / shared).front() + even_pieces(shared, ranks).front();
  all.push_back({"cp", "alltoall", heads_bytes * 4 * ranks * most * heads});
  return all;
}

}  // namespace dpbench::context
