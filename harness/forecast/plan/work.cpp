#include "harness/forecast/plan/work.h"

namespace dpbench::forecast {
namespace {

// Returns the mean number of bytes of an activation's element. Under autocast, half of the elements are in bfloat16 and
// half in float32.
double activation_bytes(gpt::Precision precision) {
  return precision == gpt::Precision::bfloat16 ? 3 : stored_bytes(precision);
}

// Returns the work of the embedding. between: bytes of the activation between two blocks. stored: bytes of one
// parameter.
BlockWork embed_work(const gpt::Shape& shape, const gpt::Cut& cut, double between, double stored) {
  const double table = static_cast<double>(shape.vocab) * static_cast<double>(shape.hidden) / cut.tp;
  return {.forward = {0, 2 * between}, .backward = {0, 2 * between + table * stored}};
}

// Returns the work of one layer. between: bytes of the activation between two blocks. size: bytes of an activation's
// element.
BlockWork layer_work(const gpt::Shape& shape, const gpt::Cut& cut, double tokens, double between, double size) {
  const auto hidden = static_cast<double>(shape.hidden), mlp = static_cast<double>(shape.mlp);
  const auto shared = static_cast<double>(shape.kv_heads * shape.head_size());
  const bool gated = shape.style == gpt::Style::llama;
  const double matrices = 2 * hidden * hidden + 2 * hidden * shared + (gated ? 3 : 2) * hidden * mlp;
  const double products = 2 * tokens * matrices / cut.tp;
  const double attention = 4 * tokens * static_cast<double>(shape.seq) * hidden / cut.tp;
  const double inner = tokens * mlp / cut.tp * size, heads = tokens * hidden / cut.tp * size;
  // Bytes that a layer moves: each of two norms reads one activation and writes one; each of two residual sums reads
  // two and writes one. The MLP's activation function reads one tensor and writes one; a gate adds a product of two
  // tensors. Rotary embeddings read and write query and key.
  const Pass forward{products + attention, 10 * between + (gated ? 5 : 2) * inner + (gated ? 6 : 0) * heads};
  const Pass backward{2 * (products + attention), 12 * between + (gated ? 7 : 3) * inner + (gated ? 6 : 0) * heads};
  return {forward, backward};
}

// Returns the work of the head and the loss. The loss casts the logits to float32 and applies log-softmax; its backward
// pass computes the gradient and casts it back.
BlockWork head_work(const gpt::Shape& shape, const gpt::Cut& cut, double tokens, double stored) {
  const double logits = tokens * static_cast<double>(shape.vocab) / cut.tp;
  const double product = 2 * logits * static_cast<double>(shape.hidden);
  return {.forward = {product, 5 * logits * stored}, .backward = {2 * product, 6 * logits * stored}};
}

}  // namespace

double stored_bytes(gpt::Precision precision) { return precision == gpt::Precision::float64 ? 8 : 4; }

BlockWork work_of(const gpt::Shape& shape, gpt::Part part, const gpt::Cut& cut, gpt::Precision precision, double rows) {
  const double tokens = rows * static_cast<double>(shape.seq) / cut.cp, size = activation_bytes(precision);
  const double stored = stored_bytes(precision);
  const double activations = tokens * static_cast<double>(shape.hidden) * size;
  const double between = cut.sequence ? activations / cut.tp : activations;
  switch (part) {
    case gpt::Part::embed:
      return embed_work(shape, cut, between, stored);
    case gpt::Part::layer:
      return layer_work(shape, cut, tokens, between, size);
    case gpt::Part::norm:
      return {.forward = {0, 2 * between}, .backward = {0, 3 * between}};
    default:
      return head_work(shape, cut, tokens, stored);
  }
}

BlockWork work_of_model(const gpt::Shape& shape, gpt::Precision precision, double rows) {
  BlockWork all = {};
  const auto add = [&](gpt::Part part, double times) {
    const BlockWork one = work_of(shape, part, {}, precision, rows);
    all.forward += {one.forward.flop * times, one.forward.bytes * times};
    all.backward += {one.backward.flop * times, one.backward.bytes * times};
  };
  add(gpt::Part::embed, 1);
  add(gpt::Part::layer, static_cast<double>(shape.layers));
  add(gpt::Part::norm, 1);
  add(gpt::Part::head, 1);
  return all;
}

}  // namespace dpbench::forecast
