// Tests the loss of gpt under tensor parallelism, in which each rank has the logits of its piece of the vocabulary.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "harness/conform/scenario/wrapped_workload.h"
#include "strategies/tensor/exchange.h"
#include "tests/unit/strategies/sharded/one_device.h"
#include "workloads/gpt/plan.h"
#include "workloads/layers/init.h"

namespace dpbench {
namespace {

using namespace one_device;

constexpr int64_t vocabulary = 257;  // vocabulary size of the models `tiny` and `tiny-llama`

// Returns the label of padding, and the first and the last token of each rank's piece of the vocabulary.
std::vector<int64_t> border_labels(int ranks) {
  std::vector<int64_t> labels = {-100};
  const std::vector<int64_t> sizes = even_pieces(vocabulary, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Piece piece = piece_of(sizes, rank);
    labels.insert(labels.end(), {piece.first, piece.first + piece.size - 1});
  }
  return labels;
}

// gpt with a weighted mean as its loss: each token has a random weight. The targets are border_labels(ranks) in turn.
class WeightedTokens : public WrappedWorkload {
 public:
  WeightedTokens(const Workload& inner, int ranks) : WrappedWorkload(inner), labels_(border_labels(ranks)) {}

  Batch batch(const at::Tensor& ids) const override {
    Batch right = WrappedWorkload::batch(ids);
    const at::Tensor labels = at::tensor(labels_), positions = at::arange(right.target.numel());
    right.target = labels.index_select(0, positions.remainder(labels.numel())).view(right.target.sizes());
    return right;
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return mean(at::cross_entropy_loss(output.flatten(0, 1), target.flatten(), {}, at::Reduction::None), target);
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override {
    const Piece columns = own_piece(vocabulary, *split.tensor);
    return mean(gpt::split_cross_entropy(output, target, columns, *split.tensor), target);
  }

 private:
  // losses: the cross-entropy of each token.
  static at::Tensor mean(const at::Tensor& losses, const at::Tensor& target) {
    const at::Tensor drawn = at::rand({target.numel()}, own_generator(7), losses.options());
    const at::Tensor weights = drawn * target.flatten().ge(0);
    return (losses * weights).sum() / weights.sum();
  }

  std::vector<int64_t> labels_;
};

TEST(TensorParallel, GradientsEqualThoseOfOneDeviceIfTheLossIsAMeanOfRandomlyWeightedTokens) {
  for (const int ranks : {2, 3, 4}) {
    const std::string model = ranks == 4 ? "tiny-llama" : "tiny";  // `tiny` has only 3 heads
    const auto inner = workload_registry().at("gpt").make({.model = model});
    const WeightedTokens workload(*inner, ranks);
    const std::string mesh = "tp=" + std::to_string(ranks);
    const NamedTensors due = gradients_and_loss(workload, "ddp", "dp=1");
    for (const std::string sequence : {"off", "on"})
      expect_near(due, gradients_and_loss(workload, "tp", mesh, {{"sequence", sequence}}), 1e-10,
                  mesh + ", tp.sequence=" + sequence + ": gradient of");
  }
}

// The labels are those of border_labels(). Some logits have an infinite exponential.
TEST(TensorParallel, LossOverAShardedVocabularyEqualsThatOverTheWhole) {
  const auto workload = workload_registry().at("gpt").make({.model = "tiny"});
  for (const int ranks : {2, 3, 4}) {
    const std::vector<int64_t> labels = border_labels(ranks);
    const auto tokens = static_cast<int64_t>(labels.size());
    const at::Tensor target = at::tensor(labels).unsqueeze(0);
    at::Tensor logits = at::randn({1, tokens, vocabulary}, at::kDouble).mul_(2000).requires_grad_();
    const at::Tensor due = workload->loss(logits, target);
    due.backward();
    expect_no_errors(on_ranks(ranks, [&](Rank& me) {
      const Axis axis = me.mesh("tp=" + std::to_string(ranks)).axis("tp");
      const ModelSplit split{.tensor = std::make_shared<tensor::Exchange>(axis, tensor::Options{}, tokens, nullptr)};
      const Piece mine = own_piece(vocabulary, *split.tensor);
      const at::Tensor piece = logits.detach().narrow(2, mine.first, mine.size).clone().requires_grad_();
      const at::Tensor loss = workload->split_loss(piece, target, split);
      loss.backward();
      EXPECT_NEAR(loss.item<double>(), due.item<double>(), 1e-9);
      EXPECT_LE(distance(piece.grad(), logits.grad().narrow(2, mine.first, mine.size)), 1e-12);
    }));
  }
}

}  // namespace
}  // namespace dpbench
