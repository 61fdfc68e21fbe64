#include "strategies/context/options.h"

#include <iterator>

#include "strategies/api/parts/flat.h"
#include "strategies/context/token_cut.h"

namespace dpbench::context {
namespace {

// The tokens and messages that a rank exchanges in ring attention of one layer. sent, received: numbers of tokens; a
// token travels with its keys and values, or with their gradients. messages: number of messages in each direction.
struct Travelling {
  int64_t sent = 0, received = 0, messages = 0;
};

// Counts the tokens of a forward and a backward pass. Keys and values travel in both passes, their gradients only in
// the backward pass.
Travelling tokens_on_the_way(const TokenCut& cut, int ranks, int rank) {
  Travelling tokens;
  const auto count = [&](int hop) { return cut.count((rank + ranks - hop % ranks) % ranks); };
  for (int hop = 0; hop < ranks; ++hop) {
    const int64_t passes = hop + 1 < ranks ? 3 : 1;
    tokens.messages += passes;
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

std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const SequencePlan& plan,
                             const Axis& cp, const RankShare& share) {
  const auto size = static_cast<int64_t>(c10::elementSize(query.dtype));
  // Allreduces over cp sum the gradients, with one call per flat buffer, and the loss of each part of a micro-batch.
  const int64_t losses = share.has_loss ? std::ssize(share.parts) : 0;
  std::vector<Traffic> all = {{"cp", "allreduce", flat_bytes(query, share.parameters) + losses * size,
                               flat_buffers(query, share.parameters) + losses}};
  // Bytes that one attention head takes for a token, summed over all samples and layers.
  const int64_t layers = share.layers(plan.first_layer, plan.layers);
  const int64_t heads_bytes = query.samples * layers * plan.head_size * size;
  if (options.kind == Kind::ring) {
    const TokenCut cut(plan.tokens, cp.size, options.zigzag);
    const Travelling tokens = tokens_on_the_way(cut, cp.size, cp.rank);
    const int64_t bytes = 2 * plan.kv_heads * heads_bytes;  // bytes of a token's keys and values
    const int64_t messages = tokens.messages * layers * share.passes();
    all.push_back({"cp", "send", tokens.sent * bytes, messages});
    all.push_back({"cp", "recv", tokens.received * bytes, messages});
    return all;
  }
  // Ulysses exchanges queries, keys, values and outputs, in the forward and the backward pass: eight calls for each
  // layer and part of a micro-batch. Each piece is padded to the size of the largest.
  const int64_t shared = plan.kv_heads < cp.size ? plan.heads : plan.kv_heads;
  const int64_t most = even_pieces(plan.tokens, cp.size).front();
  const int64_t heads =
      even_pieces(plan.heads, cp.size, plan.heads / shared).front() + even_pieces(shared, cp.size).front();
  all.push_back({"cp", "alltoall", heads_bytes * 4 * cp.size * most * heads, 8 * layers * share.passes()});
  return all;
}

}  // namespace dpbench::context
