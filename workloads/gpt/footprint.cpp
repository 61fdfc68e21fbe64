#include "workloads/gpt/footprint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "workloads/base/error.h"

namespace dpbench::gpt {
namespace {

// Returns the size of the first rank's piece, which is the largest, if `size` elements are divided evenly among ranks.
int64_t first_piece(int64_t size, int ranks) { return (size + ranks - 1) / ranks; }

void refuse_unknown(const Shape& shape) {
  if (shape.experts > 0)
    throw UsageError("--model experts=" + std::to_string(shape.experts) +
                     ": there is no formula of the memory of a model with experts");
}

// Sizes on the first rank, which has the largest pieces: numbers of features and tokens, and bytes of activations.
struct Sizes {
  Sizes(const Shape& shape, const Cut& cut, Precision precision = Precision::float32, double rows = 1)
      : gpt2(shape.style == Style::gpt2),
        narrow(precision == Precision::bfloat16),
        wide_bytes(precision == Precision::float64 ? 8 : 4),
        bytes(narrow ? 2 : wide_bytes) {
    const bool shared = shape.kv_heads >= cut.tp;
    const int64_t group = shape.heads / shape.kv_heads, size = shape.head_size();
    const int64_t own = shared ? first_piece(shape.kv_heads, cut.tp) * group : first_piece(shape.heads, cut.tp);
    heads = static_cast<double>(own);
    query = own * size;
    key_stored = (shared ? own / group : shape.kv_heads) * size;
    key_used = shared ? key_stored : query;
    mlp = first_piece(shape.mlp, cut.tp);
    vocab = first_piece(shape.vocab, cut.tp);
    const int64_t of_row = first_piece(shape.seq, cut.cp);
    row_tokens = static_cast<double>(of_row);
    tokens = rows * row_tokens;
    outer_tokens = rows * static_cast<double>(cut.sequence ? first_piece(of_row, cut.tp) : of_row);
    const auto hidden = static_cast<double>(shape.hidden);
    stream = wide_bytes * outer_tokens * hidden;
    whole_stream = wide_bytes * tokens * hidden;
    product = bytes * outer_tokens * hidden;
    whole_product = bytes * tokens * hidden;
    logits = wide_bytes * tokens * static_cast<double>(vocab);
    dropout = shape.dropout > 0;
    divided = cut.tp > 1;
    gathered = divided && cut.sequence;
  }
  bool gpt2, narrow;
  // Bytes per element: `wide_bytes` of parameters and the residual stream, `bytes` of matrix products.
  double wide_bytes, bytes;
  double heads = 0, row_tokens = 0, tokens = 0;
  double outer_tokens = 0;  // the number of a rank's tokens in activations between the divided layers
  int64_t query = 0, key_stored = 0, key_used = 0, mlp = 0, vocab = 0;
  // Bytes of an activation with `hidden` features: `stream` in the residual stream, `product` as operand of a matrix
  // product. Both are for activations between divided layers; whole_... is for those inside. `logits`: bytes of the
  // logits.
  double stream = 0, whole_stream = 0, product = 0, whole_product = 0, logits = 0;
  bool dropout = false, divided = false, gathered = false;
};

struct Counts {
  int64_t matrices = 0, vectors = 0;
};

Counts counts_of(const Shape& shape, Part part, const Cut& cut) {
  const Sizes sizes(shape, cut);
  const int64_t hidden = shape.hidden;
  if (part == Part::embed) return {sizes.vocab * hidden + (sizes.gpt2 ? shape.seq * hidden : 0), 0};
  if (part == Part::norm) return {0, sizes.gpt2 ? 2 * hidden : hidden};
  if (part == Part::head) return {shape.tied ? 0 : sizes.vocab * hidden, 0};
  const int64_t attention = 2 * sizes.query + 2 * sizes.key_stored, mlp = (sizes.gpt2 ? 2 : 3) * sizes.mlp;
  const int64_t biases = sizes.query + 2 * sizes.key_stored + sizes.mlp + 2 * hidden;
  return {(attention + mlp) * hidden, sizes.gpt2 ? biases + 4 * hidden : 2 * hidden};
}

// Returns the bytes of temporary tensors while a dropout mask is computed. A float32 mask on the CPU is computed by a
// loop and needs none.
double drawn_mask(const Sizes& sizes, double bytes) {
  // While a mask is computed, four int64 tensors of its size exist at once.
  constexpr double float32_bytes = 4, at_once = 4 * 8;
  return sizes.dropout && bytes != float32_bytes ? at_once * sizes.stream / sizes.wide_bytes : 0;
}

Activations of_embed(const Sizes& sizes) {
  const double added = (sizes.gpt2 || sizes.dropout ? 2 : 1) * sizes.stream + drawn_mask(sizes, sizes.wide_bytes);
  // Bytes that the embedding keeps per token: an int64 index, and a bool that marks tokens in another rank's part of
  // the table.
  constexpr double masks = 9;
  return {
      .kept = (sizes.dropout ? sizes.stream : 0) + (sizes.divided ? masks * sizes.tokens : 0),
      .output = sizes.stream,
      .forward = std::max(added, sizes.divided ? 2 * sizes.whole_stream : 0),
      .backward = sizes.stream + (sizes.divided ? sizes.whole_stream : 0) + (sizes.gathered ? sizes.whole_stream : 0)};
}

// Returns the bytes that a norm keeps for its backward pass. LayerNorm keeps two numbers per token. RMSNorm, a
// composite operation on the CPU, keeps one number per token and the normalized input.
double kept_by_norm(const Sizes& sizes) {
  const double numbers = sizes.wide_bytes * sizes.outer_tokens;
  return sizes.gpt2 ? 2 * numbers : numbers + sizes.stream;
}

Activations of_norm(const Sizes& sizes) {
  return {.kept = kept_by_norm(sizes),
          .output = sizes.stream,
          .forward = sizes.stream,
          .backward = (sizes.gpt2 ? 2 : 5) * sizes.stream};
}

// Returns the bytes of inputs that several linear layers with the same input keep for the backward pass. Under
// autocast, each layer keeps its own copy; otherwise they all keep the same tensor.
double kept_inputs(const Sizes& sizes, int layers) { return (sizes.narrow ? layers : 1) * sizes.whole_product; }

double kept_by_attention(const Shape& shape, const Sizes& sizes, const Cut& cut) {
  const double tokens = sizes.tokens, query = static_cast<double>(sizes.query) * tokens,
               key = static_cast<double>(sizes.key_used) * tokens;
  const double logsumexp = sizes.wide_bytes * sizes.heads * tokens;
  const double inputs = kept_inputs(sizes, 3) + logsumexp;
  const bool ring = cut.cp > 1;
  // A rank's tokens are not contiguous in ring attention. So the rank makes four copies of those parts of the rotary
  // tables that belong to its positions.
  const double table = sizes.wide_bytes * sizes.row_tokens * static_cast<double>(shape.head_size());
  const double tables = ring && !sizes.gpt2 ? 4 * table : 0;
  if (!ring || !sizes.narrow) return inputs + tables + sizes.bytes * (2 * query + 2 * key);
  // Under autocast, ring attention keeps its output in float32 in addition. It keeps queries and keys in float32 if the
  // model has rotary positions, which compute in float32.
  const double wide = sizes.wide_bytes, queries_and_keys = sizes.gpt2 ? sizes.bytes : wide;
  return inputs + tables + queries_and_keys * (query + key) + sizes.bytes * key + (wide + sizes.bytes) * query;
}

Activations of_layer(const Shape& shape, const Sizes& sizes, const Cut& cut) {
  const double inner = sizes.bytes * sizes.tokens * static_cast<double>(sizes.mlp);
  const double masks = sizes.dropout ? 2 * sizes.product : 0;
  Activations found{.output = sizes.stream};
  found.kept = kept_by_attention(shape, sizes, cut) + 2 * kept_by_norm(sizes) + sizes.stream + masks +
               kept_inputs(sizes, sizes.gpt2 ? 1 : 2) + (sizes.gpt2 ? 2 : 4) * inner;
  // Temporary bytes while the MLP's output is added to the residual stream: the outputs of attention and MLP, with
  // dropout one more tensor of their size, and a float32 copy if they are in bfloat16.
  const double added = (sizes.dropout ? 3 : 2) * sizes.product + (sizes.narrow ? sizes.stream : 0);
  const double summed =
      sizes.gathered ? 2 * sizes.product + sizes.whole_product + (sizes.narrow ? sizes.whole_stream : 0) - sizes.stream
                     : 0;
  found.forward = sizes.stream + std::max({added, summed, drawn_mask(sizes, sizes.bytes)});
  const double slope = sizes.stream + (sizes.gathered ? sizes.whole_stream : 0);
  found.backward = slope + (sizes.gpt2 ? inner + (sizes.narrow ? sizes.whole_product : 0) : 2 * inner);
  return found;
}

// Returns true if the head's matrix product keeps the final norm's output itself for its backward pass; false if it
// keeps a copy.
bool keeps_norm(const Sizes& sizes) { return !sizes.narrow && !sizes.gathered; }

// Returns the memory of the head together with the loss. For its backward pass, the loss keeps the logarithms of the
// probabilities; under tensor parallelism it keeps the shifted logits and their exponentials instead. During the
// backward pass of the loss, four tensors as large as the logits exist at once.
Activations of_head(const Sizes& sizes) {
  const double kept = (sizes.divided ? 2 : 1) * sizes.logits;
  return {.kept = kept + (keeps_norm(sizes) ? 0 : sizes.whole_product),
          .output = sizes.logits,
          .forward = sizes.logits,
          .backward = 4 * sizes.logits - kept};
}

// Returns the bytes of a layer's rotary tables (cosines and sines): in float64, and in float32 unless training is in
// float64.
double rotary_tables(const Shape& shape, Precision precision) {
  const double bytes = precision == Precision::float64 ? 8 : 8 + 4;
  return 2 * bytes * static_cast<double>(shape.seq * shape.head_size());
}

// Memory of one block of a pipeline stage, in bytes.
struct BlockMemory {
  Part part;
  Activations its;
  double input = 0;      // bytes of the block's input, if the forward pass keeps it; else 0
  double gradients = 0;  // gradients of the block's parameters
  // Bytes of the gradient of the block's largest parameter. It needs memory of its own until it is added to the
  // gradient of earlier micro-batches.
  double temporary = 0;
  double held() const { return its.kept + its.casts; }
};

// Computes the memory at the moment of a training step that needs the most. It goes through all moments and keeps the
// maximum.
class Search {
 public:
  Search(const Shape& shape, const Stage& stage, const Cut& cut, Precision precision, const Step& step)
      : sizes_(shape, cut, precision, step.rows), step_(step), tied_(shape.tied && stage.embed && stage.head) {
    if (stage.embed) add(shape, Part::embed, cut, precision);
    for (int64_t i = 0; i < stage.layers; ++i) add(shape, Part::layer, cut, precision);
    if (stage.head) add(shape, Part::norm, cut, precision), add(shape, Part::head, cut, precision);
    for (const BlockMemory& block : blocks_) most_.parameters += block.gradients;
    if (tied_) most_.parameters -= blocks_.back().gradients;
    const double slots = shape.optimizer == Update::adamw ? 2 : shape.optimizer == Update::momentum ? 1 : 0;
    most_.state = slots * most_.parameters;
    if (stage.head)
      logits_ = blocks_.back().its.output;
    else if (!blocks_.empty())
      stage_output_ = blocks_.back().its.output;
    if (!sizes_.gpt2) tables_ = static_cast<double>(stage.layers) * rotary_tables(shape, precision);
    if (shape.tied && stage.embed != stage.head)
      tied_sum_ = 2 * sizes_.wide_bytes * static_cast<double>(sizes_.vocab * shape.hidden);
    find_spans(stage.head);
  }

  StepMemory found() {
    const bool more = step_.micro_batches > 1;
    const int live = std::min(step_.live, step_.micro_batches);
    pass(live - 1, step_.micro_batches > live);
    if (more && step_.micro_batches == live) pass(0, true);
    // At the end of the step, the outputs of all micro-batches are joined, and stages that share a tied weight add its
    // gradients.
    const double joined = more ? step_.micro_batches * logits_ : 0;
    consider(most_.parameters, 0, outputs(step_.micro_batches) + std::max(joined, tied_sum_));
    return most_;
  }

 private:
  struct Span {
    size_t first, last;
    bool again;  // true if the forward pass keeps only the span's input, so that the backward pass runs the span again
  };

  void add(const Shape& shape, Part part, const Cut& cut, Precision precision) {
    BlockMemory block{.part = part, .its = activations(shape, part, cut, precision, step_.rows)};
    const bool keeps_input = part == Part::head ? keeps_norm(sizes_) : part != Part::embed;
    block.input = keeps_input ? sizes_.stream : 0;
    Shape untied = shape;
    untied.tied = false;  // the head computes a gradient of its own for a weight that it shares with the embedding
    block.gradients = sizes_.wide_bytes * static_cast<double>(parameters(untied, part, cut));
    const auto hidden = static_cast<double>(shape.hidden);
    if (part == Part::embed) block.temporary = block.gradients;
    if (part == Part::layer) block.temporary = sizes_.bytes * static_cast<double>(sizes_.mlp) * hidden;
    blocks_.push_back(block);
  }

  // Divides the blocks into the spans that recomputation runs again, as the model does. If the stage does not have the
  // head, assumes that it ends before the model's last span, which is not recomputed.
  void find_spans(bool has_head) {
    const auto every = static_cast<size_t>(step_.recompute);
    const size_t all = blocks_.size();
    size_t first = 0;
    for (; every > 0 && first < all && (!has_head || first + every < all); first += every)
      spans_.push_back({first, std::min(first + every, all), true});
    if (first < all) spans_.push_back({first, all, false});
  }

  // Returns the bytes that blocks first .. last - 1 keep for the backward pass, without the input of block `first`.
  double held(size_t first, size_t last) const {
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += blocks_[i].held() + (i > first ? blocks_[i].input : 0);
    return sum;
  }
  double gradients(size_t first, size_t last) const {
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += blocks_[i].gradients;
    return sum;
  }
  // Returns the bytes that the forward pass of recomputation spans 0 .. end - 1 keeps for the backward pass.
  double kept(size_t end) const {
    double sum = 0;
    for (size_t s = 0; s < end; ++s) {
      const Span& span = spans_[s];
      sum += blocks_[span.first].input + (span.again ? 0 : held(span.first, span.last));
    }
    return sum;
  }
  double outputs(int micro_batches) const {
    return (micro_batches + (step_.last_output ? step_.micro_batches : 0)) * logits_;
  }

  // Takes all moments of one micro-batch's passes into account for the peak. others: number of other micro-batches that
  // are between their forward and backward pass. more: true if there are gradients of earlier micro-batches.
  void pass(int others, bool more) {
    const double of_others = others * (kept(spans_.size()) + stage_output_) + stage_output_;
    for (size_t s = spans_.size(); s-- > 0;) {
      const Span& span = spans_[s];
      const double before = of_others + kept(s) + blocks_[span.first].input;
      for (size_t b = span.last; b-- > span.first;) {
        forward(span, b, before, more);
        backward(span, b, before, more);
      }
      if (span.again) consider_gradients(span.first, before, span, more, 0);
    }
  }

  void forward(const Span& span, size_t b, double before, bool more) {
    // A span that is recomputed runs while later blocks already have gradients. The last span is not recomputed: it
    // runs in the forward pass.
    const double gradients_now = more ? most_.parameters : span.again ? gradients(span.last, blocks_.size()) : 0;
    const double slope = span.again ? blocks_[span.last - 1].its.output : 0;
    consider(gradients_now, before + held(span.first, b + 1), earlier_outputs(b) + blocks_[b].its.forward + slope);
  }

  void backward(const Span& span, size_t b, double before, bool more) {
    const BlockMemory& block = blocks_[b];
    const double now = before + held(span.first, b + 1);
    // The output of a recomputed span and the gradient of that output exist until the backward pass of the whole span
    // has ended.
    const double ends = !span.again ? 0 : blocks_[span.last - 1].its.output * (b + 1 == span.last ? 1 : 2);
    if (block.part == Part::head) return head(block, now, more);
    consider_gradients(b + 1, now, span, more, block.its.backward + block.temporary + ends);
  }

  // Takes the moments of the head's backward pass into account for the peak. First comes the backward pass of the loss,
  // then the weight's gradient, which is computed from the logits' gradient in the dtype of matrix products.
  void head(const BlockMemory& block, double now, bool more) {
    const double all = more ? most_.parameters : 0, weight = block.gradients;
    const double before = outputs(step_.micro_batches - 1), slope = logits_ * sizes_.bytes / sizes_.wide_bytes;
    consider(all, now, before + block.its.backward);
    now -= block.its.kept - (keeps_norm(sizes_) ? 0 : sizes_.whole_product);
    consider(all, now, before + logits_ + slope + weight * sizes_.bytes / sizes_.wide_bytes);
    if (sizes_.narrow) consider(all, now - block.its.casts, before + logits_ + weight * 3 / 2);
  }

  // Returns the bytes of all logits that exist while block `b` runs, except those that the block itself computes. The
  // logits of each micro-batch exist from the head's forward pass to the end of the step. If the caller keeps the
  // output of the previous step, its logits exist too.
  double earlier_outputs(size_t b) const { return outputs(step_.micro_batches - (b + 1 == blocks_.size() ? 1 : 0)); }

  // Takes one moment of the backward pass into account for the peak. At this moment, block `done` and all later blocks
  // have gradients.
  void consider_gradients(size_t done, double activations, const Span& span, bool more, double workspace) {
    double now = more ? most_.parameters : gradients(done, blocks_.size());
    // In later micro-batches, new gradients exist beside the sums of earlier ones: those of a recomputed span until the
    // span's end, that of a tied weight until the end of the pass.
    if (more && span.again) now += gradients(done, span.last);
    if (more && tied_) now += blocks_.back().gradients;
    consider(now, activations, workspace + outputs(step_.micro_batches));
  }

  void consider(double gradients, double activations, double workspace) {
    StepMemory moment = most_;
    moment.gradients = gradients, moment.activations = activations, moment.workspace = workspace + tables_;
    if (moment.total() > most_.total()) most_ = moment;
  }

  Sizes sizes_;
  Step step_;
  bool tied_;
  std::vector<BlockMemory> blocks_;
  std::vector<Span> spans_;
  // Bytes of the output: `logits_` for a stage with the head, `stage_output_` for any other stage.
  double logits_ = 0, stage_output_ = 0;
  double tables_ = 0;
  double tied_sum_ = 0;  // bytes of temporary tensors while stages that share a tied weight sum its gradient
  StepMemory most_;
};

}  // namespace

int64_t parameters(const Shape& shape, Part part, const Cut& cut) {
  refuse_unknown(shape);
  const Counts counts = counts_of(shape, part, cut);
  return counts.matrices + counts.vectors;
}

Activations activations(const Shape& shape, Part part, const Cut& cut, Precision precision, double rows) {
  refuse_unknown(shape);
  const Sizes sizes(shape, cut, precision, rows);
  Activations found = part == Part::embed   ? of_embed(sizes)
                      : part == Part::layer ? of_layer(shape, sizes, cut)
                      : part == Part::norm  ? of_norm(sizes)
                                            : of_head(sizes);
  if (!sizes.narrow || part == Part::embed) return found;
  const auto weight = part == Part::head ? sizes.vocab * shape.hidden : counts_of(shape, part, cut).matrices;
  found.casts = sizes.bytes * static_cast<double>(weight);
  return found;
}

StepMemory step_memory(const Shape& shape, const Stage& stage, const Cut& cut, Precision precision, const Step& step) {
  return Search(shape, stage, cut, precision, step).found();
}

StepMemory step_memory(const Shape& shape, const Cut& cut, Precision precision, const Step& step) {
  return step_memory(shape, {.layers = shape.layers}, cut, precision, step);
}

}  // namespace dpbench::gpt
