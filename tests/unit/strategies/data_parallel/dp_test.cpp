// Transfers of parameters, buffers and gradients between the replicas of dp. The conformance suite checks that dp's
// steps are correct.
#include <atomic>
#include <stdexcept>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strategies/api/parts/flat.h"
#include "strategies/dp/links.h"
#include "strategies/dp/pieces.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/data_parallel/dp_steps.h"

namespace dpbench {
namespace {

using dp_steps::made;
using dp_steps::take_steps;

// A model that changes its own state in every forward pass, in one of these ways. halves: scales the parameter, which
// autograd's version counter shows. marks: writes through the data pointer, which the counter does not show. moves:
// replaces the parameter's memory; moves_later does so from the third step on. moves_counter replaces the buffer's
// memory, grows_counter changes the buffer's shape.
class Writing : public Model {
 public:
  enum class How { halves, marks, moves, moves_later, moves_counter, grows_counter };

  Writing(How how, std::atomic<int>& kept) : how_(how), kept_(kept), mark_(1000 + made_++) {
    auto generator = at::detail::createCPUGenerator(3);
    weight_ = register_parameter("weight", at::randn({2, 5}, generator, at::kDouble));
    counter_ = register_buffer("counter", at::zeros({}, at::kLong));
  }

  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    if (is_training()) change(context.step);
    return at::linear(input, weight_) + counter_;
  }

 private:
  void change(int64_t step) {
    const at::NoGradGuard no_grad;
    if (how_ == How::moves_counter) return counter_.set_data(counter_ + 1);
    if (how_ == How::grows_counter) return counter_.set_data(at::ones({2}, at::kLong));
    counter_.add_(1);
    if (how_ == How::halves) weight_.mul_(0.5);
    if (how_ == How::marks) mark();
    if (how_ == How::moves || (how_ == How::moves_later && step >= 2)) weight_.set_data(weight_ * 0.5);
  }

  // Writes a mark, a number of this replica's model, into the parameter. If the mark of an earlier pass is still there,
  // dp has not overwritten the parameter; kept_ counts these passes.
  void mark() {
    double& first = *weight_.data_ptr<double>();
    if (first == mark_) ++kept_;
    first = mark_;
  }

  static inline std::atomic<int> made_{0};
  How how_;
  std::atomic<int>& kept_;
  double mark_;
  at::Tensor weight_, counter_;
};

class WritingWorkload : public Workload {
 public:
  explicit WritingWorkload(Writing::How how) : how_(how) {
    auto generator = at::detail::createCPUGenerator(11);
    input_ = at::randn({100, 5}, generator);
    target_ = at::randn({100, 2}, generator);
  }
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Writing>(how_, kept); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.1}; }
  Batch batch(const at::Tensor& ids) const override {
    return {input_.index_select(0, ids), target_.index_select(0, ids), ids};
  }

  mutable std::atomic<int> kept{0};

 private:
  Writing::How how_;
  at::Tensor input_, target_;
};

class DpState : public testing::TestWithParam<std::string> {};

TEST_P(DpState, ParametersAreCopiedToReplicasOncePerStep) {
  const WritingWorkload workload(Writing::How::marks);
  take_steps(*made("dp", workload, 3, {{"link", GetParam()}}), workload, {{6, 6}});
  EXPECT_EQ(workload.kept, 3) << "marks found by three models in the second micro-batch";
}

// Compares the state after training with dp and with a single device. Small micro-batches leave some replicas without
// samples, so their copies of the parameters become outdated.
void expect_the_state_of_one_device(Writing::How how, const std::string& link) {
  const WritingWorkload workload(how);
  const std::vector<std::vector<int64_t>> steps = {{3, 1, 3}, {1, 6}, {6, 1, 2}, {1}, {4, 4}};
  const auto cpu = made("cpu", workload, 1), dp = made("dp", workload, 3, {{"link", link}});
  take_steps(*cpu, workload, steps);
  take_steps(*dp, workload, steps);
  EXPECT_TRUE(at::allclose(dp->parameters()[0].second, cpu->parameters()[0].second, 1e-10, 1e-12));
  EXPECT_TRUE(at::equal(dp->buffers()[0].second, cpu->buffers()[0].second));
}

TEST_P(DpState, EqualsThatOfOneDeviceIfForwardPassesWriteToParameters) {
  expect_the_state_of_one_device(Writing::How::halves, GetParam());
}

TEST_P(DpState, EqualsThatOfOneDeviceIfTheModelReplacesParameterOrBufferMemory) {
  for (const auto how : {Writing::How::moves_counter, Writing::How::moves, Writing::How::moves_later}) {
    SCOPED_TRACE(static_cast<int>(how));
    expect_the_state_of_one_device(how, GetParam());
  }
}

TEST_P(DpState, ABufferWhoseShapeChangesIsRejected) {
  const WritingWorkload workload(Writing::How::grows_counter);
  try {
    take_steps(*made("dp", workload, 3, {{"link", GetParam()}}), workload, {{3}, {3}});
    FAIL() << "nothing was refused";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(mentions(error.what(), {"dp", "counter", "Long [2]", "Long []"}));
  }
}

INSTANTIATE_TEST_SUITE_P(Links, DpState, testing::Values("auto", "plain"));

// Batches of 30 and 10 samples as in the DataParallel tutorials, split over 1 to 8 devices. A batch of 10 samples
// reaches only five of 8 devices.
TEST(Pieces, OfABatchForReplicasHaveTheSizesShownInTheDataParallelTutorials) {
  struct Row {
    int64_t batch, replicas;
    std::vector<int64_t> rows;
  };
  const std::vector<Row> table{{30, 1, {30}},
                               {30, 2, {15, 15}},
                               {30, 3, {10, 10, 10}},
                               {30, 4, {8, 8, 8, 6}},
                               {30, 8, {4, 4, 4, 4, 4, 4, 4, 2}},
                               {10, 1, {10}},
                               {10, 2, {5, 5}},
                               {10, 3, {4, 4, 2}},
                               {10, 4, {3, 3, 3, 1}},
                               {10, 8, {2, 2, 2, 2, 2}},
                               {3, 8, {1, 1, 1}}};
  const WritingWorkload workload(Writing::How::marks);
  for (const auto& [batch, replicas, rows] : table)
    for (const bool with_rows : {true, false}) {
      SCOPED_TRACE(std::to_string(batch) + " rows, " + std::to_string(replicas) + " replicas, " +
                   (with_rows ? "" : "only ") + "their ids");
      const at::Tensor ids = at::arange(7, 7 + batch);
      const Batch whole = workload.batch(ids);
      dp::Pieces pieces(workload, with_rows ? whole : Batch{{}, {}, ids}, replicas);
      ASSERT_EQ(pieces.count(), rows.size());
      int64_t first = 0;
      for (size_t i = 0; i < rows.size(); first += rows[i++]) {
        const Batch mine = pieces.take(i);
        EXPECT_TRUE(at::equal(mine.ids, ids.narrow(0, first, rows[i]))) << "piece " << i;
        EXPECT_TRUE(at::equal(mine.input, whole.input.narrow(0, first, rows[i]))) << "piece " << i;
      }
      EXPECT_TRUE(at::equal(pieces.target(), whole.target));
    }
}

// The replicas' gradients may be added in parallel only if all have the same memory layout. Otherwise two threads would
// add to the same elements.
TEST(SumGradients, IsDeterministicIfTheMemoryLayoutOfOneReplicasGradientDiffers) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  const dpbench::Setup setup{.workload = *workload,
                             .devices = std::vector<at::Device>(4, at::Device(at::kCPU)),
                             .params = {},
                             .clip_norm = {}};
  dp::Replicas replicas;
  for (const at::Device& device : setup.devices) replicas.push_back(std::make_unique<dp::FlatReplica>(setup, device));
  ReplicaThreads threads(4);
  const at::Tensor weight = replicas[0]->replica.trainable()[0].tensor;
  const at::Tensor ones = at::ones_like(weight.detach()),
                   large = ones * 1e8;  // 1e8 + 1 = 1e8 in float32, so another order of addition gives another sum
  const std::vector<at::Tensor> gradients{at::zeros_like(ones), large, (-large).t().contiguous().t(), ones};
  for (int again = 0; again < 50; ++again) {
    for (size_t i = 0; i < replicas.size(); ++i)
      for (size_t k = 0; k < replicas[i]->replica.trainable().size(); ++k)
        replicas[i]->gradient_of(k) = k > 0 ? at::Tensor() : i == 2 ? gradients[i] : gradients[i].clone();
    dp::sum_gradients(replicas, threads, nullptr, 4);
    ASSERT_TRUE(at::equal(replicas[0]->gradient_of(0), ones));
    ASSERT_FALSE(replicas[0]->gradient_of(1).defined());
  }
}

TEST(Flat, SliceFromATensorOnContainsThatTensorAndAllLaterOnesOfEachDtype) {
  const std::vector<at::Tensor> tensors = {at::full({3}, 1.0, at::kDouble), at::full({2}, 2.0, at::kFloat),
                                           at::full({0}, 0.0, at::kDouble), at::full({4}, 3.0, at::kDouble),
                                           at::full({2}, 4, at::kLong)};
  Flat flat(tensors);
  flat.adopt(tensors);
  const auto sum = [](const std::vector<at::Tensor>& parts) {
    double all = 0;
    for (const at::Tensor& part : parts) all += part.sum().item<double>();
    return all;
  };
  EXPECT_EQ(flat.tail_from(0).size(), 3U);
  EXPECT_EQ(sum(flat.tail_from(0)), 3 * 1 + 2 * 2 + 4 * 3 + 2 * 4);
  EXPECT_EQ(flat.tail_from(2).size(), 2U);
  EXPECT_EQ(sum(flat.tail_from(2)), 4 * 3 + 2 * 4);
  EXPECT_EQ(sum(flat.tail_from(4)), 2 * 4);
  EXPECT_TRUE(flat.tail_from(5).empty());
  for (const at::Tensor& part : flat.tail_from(4)) part.fill_(5);
  EXPECT_EQ(tensors[4].sum().item<int64_t>(), 10);
}

}  // namespace
}  // namespace dpbench
