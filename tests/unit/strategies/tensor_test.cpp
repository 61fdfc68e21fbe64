// The strategy tp against the same steps on one device, its collectives, and its errors.
#include <gtest/gtest.h>

#include <atomic>

#include <ATen/ATen.h>

#include "harness/conform/evidence/watching_backends.h"
#include "harness/conform/scenario/wrapped_workload.h"
#include "strategies/tensor/exchange.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded_runs.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

struct Setting {
  std::string workload, model;
  int ranks = 2, replicas = 1;
  Given params = {};
  std::optional<double> clip_norm = {};
  at::ScalarType dtype = at::kDouble;
};

std::string text_of(const Setting& one) {
  std::string text = one.workload + "_" + one.model + "_" + std::to_string(one.replicas) + "x" +
                     std::to_string(one.ranks) + (one.clip_norm ? "_clipped" : "");
  for (const auto& [name, value] : one.params) text += "_" + name + "_" + value;
  std::ranges::replace(text, '-', '_');
  std::ranges::replace(text, ',', '_');
  std::ranges::replace(text, '=', '_');
  return text;
}

void PrintTo(const Setting& one, std::ostream* out) { *out << text_of(one); }

std::unique_ptr<Workload> made_workload(const Setting& one) {
  return workload_registry().at(one.workload).make({.model = one.model});
}

// Two micro-batches of different sizes.
std::vector<Batch> micro_batches(const Workload& workload, int64_t step, int replica) {
  const int64_t first = step * 20 + replica * 10;
  return {workload.batch(at::arange(first, first + 3)), workload.batch(at::arange(first + 3, first + 5))};
}

struct Result {
  Outcome outcome;
  at::Tensor output, loss, evaluated;
  NamedTensors buffers;
};

Result after_steps(Strategy& strategy, const Workload& workload, int replica, int rank) {
  Result result;
  for (int64_t step = 0; step < 3; ++step) {
    Phases phases;
    const StepResult one = strategy.step(step, micro_batches(workload, step, replica), phases);
    result.output = one.whole_output().clone();
    result.loss = one.loss.clone();
  }
  result.outcome = {copies(strategy.gradients()), copies(strategy.parameters()), copies(strategy.state())};
  result.buffers = copies(strategy.buffers());
  result.evaluated = strategy.forward(workload.batch(at::arange(rank, rank + 4)));
  return result;
}

// Returns what a rank has after some steps on a mesh.
Result result_of(const std::string& strategy, const std::string& mesh, int ranks, const Setting& setting, int rank) {
  const auto workload = made_workload(setting);
  Result result;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const auto made = made_on(me.mesh(mesh), strategy, *workload, strategy == "tp" ? setting.params : Given{},
                              setting.dtype, setting.clip_norm);
    const int replica = me.rank / (ranks / setting.replicas);
    Result mine = after_steps(*made, *workload, replica, rank);
    if (me.rank == rank) result = std::move(mine);
  }));
  return result;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

void expect_near(const NamedTensors& due, const NamedTensors& found, double limit, const std::string& kind) {
  ASSERT_EQ(due.size(), found.size()) << kind;
  for (const auto& [name, tensor] : due) {
    const at::Tensor* other = find(found, name);
    ASSERT_TRUE(other) << kind << " " << name;
    ASSERT_EQ(other->sizes(), tensor.sizes()) << kind << " " << name;
    EXPECT_LE(distance(tensor, *other), limit) << kind << " " << name;
  }
}

class TensorParallelSteps : public testing::TestWithParam<Setting> {};

TEST_P(TensorParallelSteps, EqualThoseOfOneDevice) {
  const Setting& one = GetParam();
  const int ranks = one.ranks * one.replicas;
  const std::string mesh = "dp=" + std::to_string(one.replicas) + ",tp=" + std::to_string(one.ranks);
  for (const int rank : {0, ranks - 1}) {
    const int replica = rank / one.ranks;
    Setting plain = one;
    const Result due = result_of("ddp", "", one.replicas, plain, replica),
                 found = result_of("tp", mesh, ranks, one, rank);
    const double limit = one.workload == "gpt-exact" ? 0 : 1e-10;
    expect_near(due.outcome.gradients, found.outcome.gradients, limit, "gradient of");
    expect_near(due.outcome.parameters, found.outcome.parameters, limit, "parameter");
    expect_near(due.outcome.state, found.outcome.state, limit, "state");
    expect_near(due.buffers, found.buffers, limit, "buffer");
    EXPECT_LE(distance(due.output, found.output), limit);
    EXPECT_LE(distance(due.loss, found.loss), limit);
    if (replica == rank) {
      EXPECT_LE(distance(due.evaluated, found.evaluated), limit);
    }
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  // The heads, the MLP's width, the vocabulary and the sequence of these models are not multiples of the ranks.
  for (const Given& params : std::vector<Given>{{{"verify", "on"}},
                                                {{"chunks", "2"}},
                                                {{"sequence", "on"}, {"verify", "on"}},
                                                {{"sequence", "on"}, {"chunks", "2"}}}) {
    for (const int ranks : {2, 3}) all.push_back({"gpt-exact", "", ranks, 1, params});
    for (const int ranks : {2, 3}) all.push_back({"gpt", "tiny", ranks, 1, params});
    // From 3 ranks on, each of them has all key and value heads.
    for (const int ranks : {2, 3, 4}) all.push_back({"gpt", "tiny-llama", ranks, 1, params});
    all.push_back({"gpt", "tiny", 2, 2, params, 0.01});
  }
  for (const char* workload : {"mnist-mlp", "convnet", "random-linear", "probe-mlp"})
    for (const int ranks : {2, 3, 4}) all.push_back({workload, "", ranks});
  all.push_back({"convnet", "", 3, 2});
  all.push_back({"gpt", "tiny-llama", 3, 1, {}, 0.01});
  return all;
}

INSTANTIATE_TEST_SUITE_P(TensorParallel, TensorParallelSteps, testing::ValuesIn(settings()),
                         [](const auto& one) { return text_of(one.param); });

// A loss in which each output has a weight of its own.
class Weighted : public WrappedWorkload {
 public:
  using WrappedWorkload::WrappedWorkload;
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    const at::Tensor columns = at::arange(output.size(1), output.options());
    return (output * (target.unsqueeze(1).to(output.scalar_type()) * 1.7 + columns).cos()).mean();
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const TensorSplit&) const override {
    return loss(output, target);
  }
};

TEST(TensorParallel, HasTheGradientsOfALossWithAWeightForEachOutput) {
  for (const std::string name : {"mnist-mlp", "convnet"}) {
    const auto inner = workload_registry().at(name).make({});
    const Weighted workload(*inner);
    const auto gradients = [&](const std::string& strategy, const std::string& mesh, int ranks) {
      NamedTensors found;
      expect_no_errors(on_ranks(ranks, [&](Rank& me) {
        const auto made = made_on(me.mesh(mesh), strategy, workload, {});
        Phases phases;
        made->step(0, micro_batches(workload, 0, 0), phases);
        const NamedTensors mine = copies(made->gradients());
        if (me.rank == ranks - 1) found = mine;
      }));
      return found;
    };
    expect_near(gradients("ddp", "", 1), gradients("tp", "tp=3", 3), 1e-12, name + ": gradient of");
  }
}

// Labels on the first and last token of each rank's piece, and padding. Logits whose exponential is infinite.
TEST(TensorParallel, LossOfADividedVocabularyIsThatOfTheWhole) {
  const auto workload = gpt("tiny");
  for (const int ranks : {2, 3, 4}) {
    const std::vector<int64_t> sizes = even_pieces(257, ranks);
    std::vector<int64_t> labels = {-100};  // padding
    for (int rank = 0; rank < ranks; ++rank) {
      const Piece piece = piece_of(sizes, rank);
      labels.insert(labels.end(), {piece.first, piece.first + piece.size - 1});
    }
    const auto tokens = static_cast<int64_t>(labels.size());
    const at::Tensor target = at::tensor(labels).unsqueeze(0);
    at::Tensor logits = at::randn({1, tokens, 257}, at::kDouble).mul_(2000).requires_grad_();
    const at::Tensor due = workload->loss(logits, target);
    due.backward();
    expect_no_errors(on_ranks(ranks, [&](Rank& me) {
      const Axis axis = me.mesh("tp=" + std::to_string(ranks)).axis("tp");
      const tensor::Exchange exchange(axis, {}, tokens, nullptr);
      const Piece mine = piece_of(sizes, me.rank);
      const at::Tensor piece = logits.detach().narrow(2, mine.first, mine.size).clone().requires_grad_();
      const at::Tensor loss = workload->split_loss(piece, target, exchange);
      loss.backward();
      EXPECT_NEAR(loss.item<double>(), due.item<double>(), 1e-9);
      EXPECT_LE(distance(piece.grad(), logits.grad().narrow(2, mine.first, mine.size)), 1e-12);
    }));
  }
}

// Returns the error of rank 0 if a strategy is made on this mesh.
std::string refusal(const std::string& mesh, int ranks, const std::string& workload, const std::string& model,
                    const Given& params = {}) {
  const auto made = workload_registry().at(workload).make({.model = model});
  return on_ranks(ranks, [&](Rank& me) { made_on(me.mesh(mesh), "tp", *made, params); }).at(0);
}

TEST(TensorParallel, RefusesByNameWhatItCannotDivide) {
  expect_contains(refusal("tp=4", 4, "gpt", "tiny"), {"tensor parallelism over 4 ranks", "only 3 attention heads"});
  expect_contains(refusal("tp=2", 2, "probe-many", ""), {"tp", "no layers that can be divided"});
  expect_contains(refusal("tp=2", 2, "mnist-mlp", "", {{"sequence", "on"}}), {"tp.sequence=on", "no sequence"});
  expect_contains(refusal("tp=2", 2, "mnist-mlp", "", {{"chunks", "0"}}), {"tp.chunks=0", "1 or more"});
}

// Counts the collectives of the axis tp in the last of some steps.
std::map<CollectiveOp, int> collectives_of_a_step(const std::string& model, const Given& params) {
  const auto workload = gpt(model);
  std::map<CollectiveOp, int> counts;
  expect_no_errors(on_ranks(2, [&](Rank& me) {
    const auto strategy = made_on(me.mesh("tp=2"), "tp", *workload, params);
    Phases phases;
    const std::vector<Batch> micro = {workload->batch(at::arange(4))};
    strategy->step(0, micro, phases);
    me.recorder->start(false);
    strategy->step(1, micro, phases);
    const auto called = me.recorder->stop();
    if (me.rank == 0)
      for (const Collective& one : called) ++counts[one.op];
  }));
  return counts;
}

TEST(TensorParallel, CallsFourCollectivesForEachLayer) {
  using enum CollectiveOp;
  const int layers = 2, embedding = 1, head = 1, maximum_and_sum_of_the_loss = 2;
  const std::string model = "tiny,padding=off";
  const auto plain = collectives_of_a_step(model, {});
  EXPECT_EQ(plain.at(allreduce), 4 * layers + embedding + head + maximum_and_sum_of_the_loss);
  EXPECT_FALSE(plain.contains(allgather));  // of logits
  const auto sequence = collectives_of_a_step(model, {{"sequence", "on"}});
  const int gradients_of_norms = 1;
  EXPECT_EQ(sequence.at(reduce_scatter), 4 * layers + embedding + head);
  EXPECT_EQ(sequence.at(allgather), 4 * layers + embedding + head);
  EXPECT_EQ(sequence.at(allreduce), maximum_and_sum_of_the_loss + gradients_of_norms);
}

// Throws in one of its calls, counted from when it is armed.
class FailingBackend : public ForwardingBackend {
 public:
  FailingBackend(c10::intrusive_ptr<c10d::Backend> inner, std::atomic<int>& calls_left)
      : ForwardingBackend(std::move(inner)), calls_left_(calls_left) {}

 protected:
  WorkPtr around(Call call) override {
    if (calls_left_-- == 0) throw std::runtime_error("the network is gone");
    return call.run();
  }

 private:
  std::atomic<int>& calls_left_;
};

// Runs a step in which a collective of rank 1 fails. Returns rank 1's error.
std::string error_of_call(int call) {
  const auto workload = gpt();
  const auto errors = on_ranks(2, [&](Rank& me) {
    std::atomic<int> calls_left = -1;
    const Mesh mesh = me.mesh("tp=2").with_groups([&](const std::string&, const auto& group) {
      return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<FailingBackend>(inner, calls_left));
      });
    });
    const auto strategy = made_on(mesh, "tp", *workload, {});
    if (me.rank == 1) calls_left = call;
    Phases phases;
    const std::vector<Batch> micro = {workload->batch(at::arange(3))};
    strategy->step(0, micro, phases);
  });
  return errors.at(1);
}

TEST(TensorParallel, NamesTheLayerWhoseCollectiveFailed) {
  // A step calls 5 sums from the embedding to layer 1, 2 for the loss, and 5 from the head to layer 0 (and the gather
  // of the output after them).
  expect_contains(error_of_call(3), {"tp: sum of a product in model.layers.1", "the network is gone"});
  expect_contains(error_of_call(7), {"tp: sum of a gradient in lm_head", "the network is gone"});
  expect_contains(error_of_call(9), {"tp: sum of a gradient in model.layers.1", "the network is gone"});
  expect_contains(error_of_call(10), {"tp: sum of a gradient in model.layers.0", "the network is gone"});
}

TEST(TensorParallel, VerifyNamesTheRankThatDiffers) {
  const auto errors = on_ranks(3, [&](Rank& me) {
    const Axis axis = me.mesh("tp=3").axis("tp");
    const at::Tensor x = at::full({2, 4}, me.rank == 2 ? 1.0 : 0.0).requires_grad_();
    const tensor::Exchange exchange(axis, {.verify = true}, 1, nullptr);
    exchange.begin_block("block");
    exchange.enter(x);
  });
  for (const std::string& error : errors)
    expect_contains(error, {"tp.verify: input of a divided layer in block", "of rank 2 is not that of rank 0"});
}

}  // namespace
}  // namespace dpbench
