#include "workloads/gpt/experts.h"

#include <cmath>
#include <numeric>
#include <string>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "workloads/base/error.h"
#include "workloads/gpt/plan.h"
#include "workloads/layers/linear.h"

namespace dpbench::gpt {
namespace {

std::vector<int64_t> values_of(const at::Tensor& whole_numbers) {
  const at::Tensor host = whole_numbers.cpu();
  const auto* first = host.const_data_ptr<int64_t>();
  return {first, first + host.numel()};
}

at::Tensor on_device_of(const at::Tensor& x, const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong).to(x.device());
}

// order: a list of some of the row numbers 0 .. count - 1. Returns the position of each row in this list, or the length
// of the list for a row that is not in it.
at::Tensor positions_in(const at::Tensor& order, int64_t count) {
  return at::full({count}, order.numel(), order.options())
      .scatter_(0, order, at::arange(order.numel(), order.options()));
}

int64_t sum(const std::vector<int64_t>& values, const Piece& piece) {
  const auto first = values.begin() + piece.first;
  return std::accumulate(first, first + piece.size, int64_t{0});
}

// The order in which this rank computes the rows (one per token) that it has received for its experts. Rows arrive
// sorted by sending rank, then by expert. `order` sorts them by expert, then by rank: one device with the samples of
// all ranks would have this order.
struct Arrived {
  std::vector<int64_t> order;   // indices of the rows in the order of arrival, sorted by expert
  std::vector<int64_t> counts;  // number of rows for each of this rank's experts
};

// Returns the order in which received rows are computed. counts[rank][expert]: number of rows that the rank sends to
// the expert. mine: the experts of this rank.
Arrived by_expert(const std::vector<std::vector<int64_t>>& counts, const Piece& mine) {
  Arrived arrived;
  for (int64_t expert = mine.first; expert < mine.first + mine.size; ++expert) {
    int64_t before = 0, all = 0;
    for (const std::vector<int64_t>& of_rank : counts) {
      const int64_t first = before + sum(of_rank, {mine.first, expert - mine.first});
      const int64_t count = of_rank[static_cast<size_t>(expert)];
      for (int64_t row = first; row < first + count; ++row) arrived.order.push_back(row);
      before += sum(of_rank, mine), all += count;
    }
    arrived.counts.push_back(all);
  }
  return arrived;
}

}  // namespace

ExpertPlan expert_plan_of(const Shape& shape, int ranks) {
  if (shape.experts == 0) return {};
  if (shape.experts < ranks)
    throw UsageError("expert parallelism over " + std::to_string(ranks) + " ranks: the model has only " +
                     std::to_string(shape.experts) + " experts");
  ExpertPlan plan;
  plan.layers = shape.layers, plan.experts = shape.experts, plan.hidden = shape.hidden;
  plan.first_layer = first_layer;
  plan.rows = shape.capacity > 0 ? 0 : shape.seq * shape.top_k;
  plan.casts_results = !shape.exact;
  const bool llama = shape.style == Style::llama;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string experts = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    const auto add = [&](const std::string& dense, int64_t outputs) {
      plan.cuts.push_back({experts + dense + ".weight", 0, even_pieces(shape.experts, ranks)});
      if (!llama)
        plan.cuts.push_back({experts + dense + ".bias", 0, even_pieces(shape.experts * outputs, ranks, outputs)});
    };
    if (llama) add("gate_proj", shape.mlp);
    add("up_proj", shape.mlp);
    add("down_proj", shape.hidden);
  }
  return plan;
}

ExpertDense::ExpertDense(const Shape& shape, int64_t inputs, int64_t outputs, double spread,
                         const InitialWeights& weights)
    : weight_(register_parameter(
          "weight",
          weights(shape.experts * outputs, inputs, spread, /*ones=*/1).view({shape.experts, outputs, inputs}))) {
  // The biases of all experts form one vector: as a tensor with two dimensions they would be subject to weight decay.
  if (shape.style == Style::gpt2) bias_ = register_parameter("bias", at::zeros({shape.experts * outputs}));
}

std::vector<at::Tensor> ExpertDense::forward(const std::vector<at::Tensor>& rows) const {
  // unbind() makes a single autograd node for all experts. With one select() per expert, the backward pass would add up
  // as many gradients, each as large as the whole tensor.
  const std::vector<at::Tensor> matrices = weight_.unbind();
  const std::vector<at::Tensor> biases =
      bias_.defined() ? bias_.view({-1, weight_.size(1)}).unbind() : std::vector<at::Tensor>(matrices.size());
  std::vector<at::Tensor> products;
  for (size_t i = 0; i < rows.size(); ++i) products.push_back(linear(rows[i], matrices.at(i), biases.at(i)));
  return products;
}

Experts::Experts(const Shape& shape, const InitialWeights& weights) : shape_(shape) {
  router_ = register_module(
      "router", std::make_shared<Dense>(shape.hidden, shape.experts, /*biased=*/false, initial_spread, weights));
  const auto experts = register_module("experts", std::make_shared<torch::nn::Module>("experts"));
  const auto dense = [&](const std::string& name, int64_t inputs, int64_t outputs, double spread) {
    return experts->register_module(name, std::make_shared<ExpertDense>(shape, inputs, outputs, spread, weights));
  };
  if (shape.style == Style::llama) gate_ = dense("gate_proj", shape.hidden, shape.mlp, initial_spread);
  up_ = dense("up_proj", shape.hidden, shape.mlp, initial_spread);
  down_ = dense("down_proj", shape.mlp, shape.hidden, residual_spread(shape));
}

// Returns the balance loss of each sequence. scores: the router's scores, of shape [samples, tokens, experts]. uses: 1
// if the token uses the expert, else 0, in the same shape.
at::Tensor Experts::balance_of(const at::Tensor& scores, const at::Tensor& uses) const {
  // The model of gpt-exact must compute whole numbers only, so it takes sums in place of means.
  if (shape_.exact) return (uses.sum(1) * scores.sum(1)).sum(1);
  const auto experts = static_cast<double>(shape_.experts), chosen = static_cast<double>(shape_.top_k);
  return (uses.mean(1) * scores.mean(1)).sum(1) * (experts / chosen);
}

Experts::Choice Experts::choose(const at::Tensor& x) const {
  // The router is computed without autocast, because with rounded scores it might select other experts.
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const int64_t rows = x.size(0), tokens = x.size(1), k = shape_.top_k;
  const at::Tensor logits = router_->forward(x.to(router_->weight().scalar_type()));
  const at::Tensor scores = shape_.exact ? logits : logits.softmax(-1);
  // A stable sort selects the same expert of several with equal scores on every device; topk() does not.
  const at::Tensor experts = scores.detach().argsort(/*stable=*/true, /*dim=*/-1, /*descending=*/true).narrow(-1, 0, k);
  // one-hot: 1 if the token's k-th choice is this expert, else 0; shape [samples, tokens, top_k, experts]
  const at::Tensor uses = at::one_hot(experts, shape_.experts);
  Choice choice;
  choice.experts = experts.reshape({rows * tokens, k});
  choice.balance = balance_of(scores, uses.sum(2).to(scores.scalar_type()));
  const at::Tensor chosen = scores.gather(-1, experts).reshape({rows * tokens, k});
  choice.weights = shape_.exact ? at::ones_like(chosen) : chosen / chosen.sum(-1, /*keepdim=*/true);
  if (shape_.capacity > 0) {
    const auto even = static_cast<double>(k * tokens) / static_cast<double>(shape_.experts);
    const auto most = static_cast<int64_t>(std::ceil(shape_.capacity * even));
    // Position, counted from 1, of each choice among all choices of the same expert in the sequence.
    const at::Tensor place = uses.view({rows, tokens * k, shape_.experts}).cumsum(1);
    choice.kept = place.gather(2, experts.reshape({rows, tokens * k, 1})).le(most).view({rows * tokens, k});
  }
  return choice;
}

// Computes this rank's experts and returns their outputs. rows: the inputs, one row per token, sorted by expert.
// counts: number of rows of each expert.
at::Tensor Experts::computed(const at::Tensor& rows, const std::vector<int64_t>& counts) const {
  const std::vector<at::Tensor> inputs = rows.split_with_sizes(counts);
  std::vector<at::Tensor> hidden = up_->forward(inputs);
  const std::vector<at::Tensor> gates = gate_ ? gate_->forward(inputs) : std::vector<at::Tensor>(inputs.size());
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = activated(shape_.exact, gates[i], hidden[i]);
  return at::cat(down_->forward(hidden));
}

// Returns the outputs of all experts, computed by the ranks that hold them: sends each row to the rank of its expert
// and gets the result back, in the same order. rows: one row per token and selected expert, sorted by expert. counts:
// number of rows of each expert of the layer.
at::Tensor Experts::computed_by_all(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                    const ExpertSplit& split) const {
  const std::vector<int64_t> sizes = even_pieces(shape_.experts, split.ranks());
  const Piece mine = piece_of(sizes, split.rank());
  const std::vector<std::vector<int64_t>> all = split.counts(counts);
  std::vector<int64_t> sent, received;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    sent.push_back(sum(counts, piece_of(sizes, rank)));
    received.push_back(sum(all[static_cast<size_t>(rank)], mine));
  }
  const Arrived arrived = by_expert(all, mine);
  const at::Tensor order = on_device_of(rows, arrived.order);
  const at::Tensor found = computed(split.exchange(rows, sent, received).index_select(0, order), arrived.counts);
  return split.exchange(found.index_select(0, positions_in(order, order.numel())), received, sent);
}

Experts::Output Experts::forward(const at::Tensor& x, const ExpertSplit* split) const {
  const Choice choice = choose(x);
  const int64_t hidden = x.size(2), k = shape_.top_k, tokens = choice.experts.size(0);
  // Each token's row is repeated once per selected expert, and the copies are sorted by expert. Without the copies, a
  // row would be indexed several times, and its gradient would be nondeterministic on a GPU.
  const at::Tensor repeated = x.reshape({tokens, 1, hidden}).expand({tokens, k, hidden}).reshape({tokens * k, hidden});
  at::Tensor order = choice.experts.flatten().argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  if (choice.kept.defined()) order = order.masked_select(choice.kept.flatten().index_select(0, order));
  const std::vector<int64_t> counts =
      values_of(choice.experts.flatten().index_select(0, order).bincount({}, shape_.experts));
  const at::Tensor rows = repeated.index_select(0, order);
  at::Tensor found = split ? computed_by_all(rows, counts, *split) : computed(rows, counts);
  // Appends a row of zeros, which is an expert's output for each token that this expert dropped. The token's other
  // experts are not affected.
  if (choice.kept.defined()) found = at::cat({found, at::zeros({1, hidden}, found.options())});
  const at::Tensor of_tokens = found.index_select(0, positions_in(order, tokens * k)).view({tokens, k, hidden});
  return {(of_tokens * choice.weights.unsqueeze(-1)).sum(1).view(x.sizes()), choice.balance};
}

}  // namespace dpbench::gpt
