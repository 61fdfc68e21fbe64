#include "strategies/context/options.h"

#include <iterator>

#include "strategies/api/parts/flat.h"
#include "strategies/context/token_cut.h"

namespace dpbench::context {
namespace {

// The numbers of tokens that a rank sends and receives in a pass through ring attention of one layer. A token travels
// with its keys and values, or with their gradients.
struct Travelling {
  int64_t sent = 0, received = 0;
};

Travelling tokens_on_the_way(const TokenCut& cut, const Axis& cp, int hops) {
  Travelling tokens;
  const auto count = [&](int hop) { return cut.count((cp.rank + cp.size - hop % cp.size) % cp.size); };
  for (int hop = 0; hop < hops; ++hop) tokens.sent += count(hop), tokens.received += count(hop + 1);
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
  // Allreduces over cp sum the gradients, with one call per flat buffer, and the loss of each part of a micro-batch.
  const int64_t losses = share.has_loss ? std::ssize(share.parts) : 0;
  std::vector<Traffic> all = {{"cp", "allreduce", flat_bytes(query, share.parameters) + losses * query.element_bytes(),
                               flat_buffers(query, share.parameters) + losses}};
  const int64_t forward = share.runs(plan.first_layer, plan.layers, Direction::forward),
                backward = share.runs(plan.first_layer, plan.layers, Direction::backward);
  const int64_t elements = query.samples * plan.head_size;  // elements per attention head and token, over all samples
  if (options.kind == Kind::ring) {
    const TokenCut cut(plan.tokens, cp.size, options.zigzag);
    // Keys and values travel in one tensor, in both passes. Their gradients travel in the backward pass, one hop
    // further, to the rank that has their keys, and autocast does not convert them.
    const Travelling keys = tokens_on_the_way(cut, cp, cp.size - 1), slopes = tokens_on_the_way(cut, cp, cp.size);
    const int64_t of_heads = 2 * plan.kv_heads * elements;
    const int64_t key_bytes =
                      (forward + backward) * of_heads * query.element_bytes(plan.casts_keys && plan.casts_values),
                  slope_bytes = backward * of_heads * query.element_bytes();
    const int64_t messages = ((forward + backward) * (cp.size - 1) + backward * cp.size) * share.passes();
    all.push_back({"cp", "send", keys.sent * key_bytes + slopes.sent * slope_bytes, messages});
    all.push_back({"cp", "recv", keys.received * key_bytes + slopes.received * slope_bytes, messages});
    return all;
  }
  // Ulysses exchanges queries, keys, values and outputs, and in the backward pass their gradients: four calls in each
  // pass through a layer. Each piece is padded to the size of the largest.
  const int64_t shared = plan.kv_heads < cp.size ? plan.heads : plan.kv_heads;
  const int64_t most = even_pieces(plan.tokens, cp.size).front();
  const int64_t heads =
      even_pieces(plan.heads, cp.size, plan.heads / shared).front() + even_pieces(shared, cp.size).front();
  const int64_t size = query.element_bytes(plan.casts_keys) + query.element_bytes(plan.casts_values);
  all.push_back({"cp", "alltoall", (forward + backward) * elements * size * cp.size * most * heads,
                 4 * (forward + backward) * share.passes()});
  return all;
}

}  // namespace dpbench::context
