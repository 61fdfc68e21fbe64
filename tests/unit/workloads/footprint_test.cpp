#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/conform/scenario/make_workload.h"
#include "strategies/api/backward.h"
#include "strategies/api/parts/optimizer.h"
#include "strategies/api/strategy.h"
#include "tests/support/draw.h"
#include "workloads/base/error.h"
#include "workloads/gpt/footprint.h"
#include "workloads/gpt/gpt.h"
#include "workloads/gpt/kernels.h"
#include "workloads/gpt/model.h"
#include "workloads/layers/autocast.h"

namespace dpbench::gpt {
namespace {

constexpr double kept_tolerance = 0.01, peak_tolerance = 0.05;

// Counts the bytes of the tensors that exist, and their peak.
class CountedAllocator : public c10::Allocator {
 public:
  CountedAllocator() { c10::SetCPUAllocator(this, /*priority=*/200); }
  ~CountedAllocator() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), /*priority=*/200); }
  c10::DataPtr allocate(size_t bytes) override {
    add(static_cast<int64_t>(bytes));
    auto* block = new char[bytes + header];
    *reinterpret_cast<size_t*>(block) = bytes;
    return {block + header, block + header, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  static double live() { return static_cast<double>(live_); }
  static double peak() { return static_cast<double>(peak_); }
  static void forget_peak() { peak_ = live_.load(); }

 private:
  static constexpr size_t header = 64;
  static void add(int64_t bytes) {
    const int64_t now = live_ += bytes;
    for (int64_t before = peak_; before < now && !peak_.compare_exchange_weak(before, now);) {
    }
  }
  static void release(void* data) {
    char* block = static_cast<char*>(data) - header;
    live_ -= static_cast<int64_t>(*reinterpret_cast<size_t*>(block));
    delete[] block;
  }
  static inline std::atomic<int64_t> live_ = 0, peak_ = 0;
};

// Stands in for rank 0's exchange of activations under tensor parallelism. The resulting tensors have the correct
// sizes, but meaningless values.
class FirstPiece : public TensorSplit {
 public:
  FirstPiece(const Cut& cut, int64_t tokens) : cut_(cut), tokens_(tokens) {}
  int rank() const override { return 0; }
  int ranks() const override { return cut_.tp; }
  Piece sequence() const override { return {0, cut_.sequence ? even_pieces(tokens_, cut_.tp)[0] : tokens_}; }
  at::Tensor enter(const at::Tensor& x) const override {
    if (!cut_.sequence) return x.view_as(x);
    return at::cat(std::vector<at::Tensor>(static_cast<size_t>(cut_.tp), x), 1).narrow(1, 0, tokens_).contiguous();
  }
  at::Tensor leave(const at::Tensor& x, const Product& product) const override {
    return product(x).narrow(1, 0, sequence().size).clone(at::MemoryFormat::Contiguous);
  }
  at::Tensor join(const at::Tensor& piece, int64_t, const std::vector<int64_t>&) const override { return piece; }
  at::Tensor total(const at::Tensor& x) const override { return x.clone(); }
  at::Tensor maximum(const at::Tensor& x) const override { return x.clone(); }

 private:
  Cut cut_;
  int64_t tokens_;
};

// Saves the same tensors for the backward pass as ring attention does (strategies/context/ring.cpp).
struct RingOfOne : torch::autograd::Function<RingOfOne> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value) {
    const auto found = softmax_attention()->block(query, key, value, /*causal=*/true);
    at::Tensor output = found.output.to(query.scalar_type());
    const bool same = output.is_same(found.output);
    context->save_for_backward({query, key, value, output, same ? at::Tensor() : found.output, found.logsumexp});
    return output;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes) {
    const auto saved = context->get_saved_variables();
    const AttentionKernel::Result all{saved[4].defined() ? saved[4] : saved[3], saved[5]};
    const auto [query, key, value] =
        softmax_attention()->block_backward(slopes[0], saved[0], saved[1], saved[2], all, /*causal=*/true);
    return {query.to(saved[0].scalar_type()), key.to(saved[1].scalar_type()), value.to(saved[2].scalar_type())};
  }
};

class FirstTokens : public SequenceSplit {
 public:
  FirstTokens(int64_t tokens, int ranks) {
    const int64_t size = tokens / ranks / 2;
    tokens_ = {{0, size}, {tokens - size, size}};
  }
  const std::vector<Piece>& tokens() const override { return tokens_; }
  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::shared_ptr<const AttentionKernel>&) const override {
    return RingOfOne::apply(query, key, value);
  }
  at::Tensor total(const at::Tensor& x) const override { return x.clone(); }
  at::Tensor join(const at::Tensor& own, int64_t) const override { return own; }

 private:
  std::vector<Piece> tokens_;
};

const std::map<Precision, at::ScalarType> dtypes = {
    {Precision::float32, at::kFloat}, {Precision::float64, at::kDouble}, {Precision::bfloat16, at::kBFloat16}};

// The part of a model that one rank computes, and one micro-batch.
struct Rank {
  Rank(const std::string& text, const Cut& cut, Precision precision, int64_t rows)
      : shape(parse_shape(text)),
        workload(shape, ""),
        model(make_model(shape, 1)),
        narrow(precision == Precision::bfloat16),
        batch(workload.batch(at::arange(rows))) {
    if (precision == Precision::float64) model->to(at::kDouble);
    if (cut.tp > 1) {
      auto named = model->named_parameters();
      for (const TensorCut& one : model->tensor_plan(cut.tp).cuts) {
        at::Tensor parameter = named[one.name];
        parameter.set_data(parameter.detach().narrow(one.dim, 0, one.sizes[0]).clone());
      }
      context.split.tensor = std::make_shared<FirstPiece>(cut, shape.seq / cut.cp);
    }
    if (cut.cp > 1) context.split.sequence = std::make_shared<FirstTokens>(shape.seq, cut.cp);
    context.seed = 5, context.ids = batch.ids;
  }

  at::Tensor run(size_t first, size_t last, const at::Tensor& x) const {
    const Autocast autocast(narrow, at::kCPU);
    const at::Tensor y = model->forward_span(first, last, x, context);
    return narrow && last == model->blocks().size() ? y.to(at::kFloat) : y;
  }
  at::Tensor loss(const at::Tensor& output) const {
    return context.split.cuts_output() ? workload.split_loss(output, batch.target, context.split)
                                       : workload.loss(output, batch.target);
  }
  Part part(size_t block) const {
    const size_t count = model->blocks().size();
    return block == 0 ? Part::embed : block + 1 == count ? Part::head : block + 2 == count ? Part::norm : Part::layer;
  }

  Shape shape;
  Gpt workload;
  std::shared_ptr<Model> model;
  bool narrow;
  Batch batch;
  Context context;
};

double bytes_of(const at::Tensor& tensor) { return static_cast<double>(tensor.storage().nbytes()); }

void expect_near(double found, double due, double tolerance, const std::string& what = "step") {
  EXPECT_NEAR(due / found, 1, tolerance) << what << ": " << found << " bytes, by the formula " << due;
}

struct Division {
  std::string model;
  Cut cut = {};
};

class BlocksOfAGpt : public testing::TestWithParam<std::tuple<Division, Precision>> {};

TEST_P(BlocksOfAGpt, KeepActivationBytesWithin1PercentOfTheMemoryForecast) {
  const CountedAllocator counted;
  const auto& [division, precision] = GetParam();
  const Rank rank(division.model, division.cut, precision, /*rows=*/4);
  // All blocks run once before the count begins, so that the rotary tables are already allocated.
  rank.run(0, rank.model->blocks().size(), rank.batch.input);
  at::Tensor x = rank.batch.input;
  for (size_t i = 0; i < rank.model->blocks().size(); ++i) {
    const double before = CountedAllocator::live();
    const at::Tensor y = rank.run(i, i + 1, x);
    const at::Tensor loss = rank.part(i) == Part::head ? rank.loss(y) : at::Tensor();
    const double kept = CountedAllocator::live() - before;
    const Activations due = activations(rank.shape, rank.part(i), division.cut, precision, 4);
    const std::string name = rank.model->blocks()[i].name;
    expect_near(bytes_of(y), due.output, kept_tolerance, name + ", output");
    expect_near(kept, due.kept + due.casts + due.output, kept_tolerance, name);
    x = y.detach().requires_grad_();
  }
}

TEST_P(BlocksOfAGpt, HaveAsManyParametersAsTheMemoryForecastCounts) {
  const auto& [division, precision] = GetParam();
  const Rank rank(division.model, division.cut, precision, /*rows=*/1);
  int64_t all = 0, due = 0;
  for (const at::Tensor& one : rank.model->parameters()) all += one.numel();
  for (size_t i = 0; i < rank.model->blocks().size(); ++i) due += parameters(rank.shape, rank.part(i), division.cut);
  EXPECT_EQ(all, due);
}

const std::string gpt2 = "layers=1,hidden=256,heads=8,seq=128,vocab=1000",
                  llama = "style=llama,layers=1,hidden=256,heads=8,kv_heads=2,mlp=768,seq=128,vocab=1000";

INSTANTIATE_TEST_SUITE_P(
    Shapes, BlocksOfAGpt,
    testing::Combine(testing::Values(Division{gpt2}, Division{gpt2 + ",dropout=0.1"}, Division{gpt2 + ",kv_heads=4"},
                                     Division{llama}, Division{llama + ",tied=off,dropout=0.1"},
                                     Division{gpt2, {.tp = 2}}, Division{gpt2, {.tp = 3, .sequence = true}},
                                     Division{llama, {.tp = 2}}, Division{llama, {.tp = 4, .sequence = true}},
                                     Division{gpt2, {.cp = 2}}, Division{llama, {.cp = 2}},
                                     Division{llama + ",dropout=0.1", {.tp = 2, .sequence = true, .cp = 2}}),
                     testing::Values(Precision::float32, Precision::float64, Precision::bfloat16)));

struct Case {
  std::string model;
  Precision precision = Precision::float32;
  Step step = {};
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.model << " dtype=" << dtypes.at(one.precision) << " rows=" << one.step.rows
       << " accumulate=" << one.step.micro_batches << " recompute=" << one.step.recompute;
}

class StepsOfAGpt : public testing::TestWithParam<Case> {};

TEST_P(StepsOfAGpt, PeakMemoryIsWithin5PercentOfTheMemoryForecast) {
  const auto& [model, precision, step] = GetParam();
  const CountedAllocator counted;
  const auto workload = make_workload(workload_registry().at("gpt"), {.model = model, .recompute = step.recompute});
  std::vector<Batch> micro;
  const auto rows = static_cast<int64_t>(step.rows);
  for (int64_t i = 0; i < step.micro_batches; ++i) micro.push_back(workload->batch(at::arange(rows) + i * rows));
  const double before = CountedAllocator::live();
  const StrategyInfo& cpu = strategy_registry().at("cpu");
  const auto strategy = cpu.make({.workload = *workload,
                                  .devices = {at::kCPU},
                                  .dtype = dtypes.at(precision),
                                  .params = Params(cpu.params, {}, "cpu"),
                                  .accumulate = step.micro_batches,
                                  .clip_norm = std::nullopt});
  Phases phases;
  StepResult result;
  for (int64_t i = 0; i < 2; ++i) {
    if (!step.last_output) result = {};
    CountedAllocator::forget_peak();
    result = strategy->step(i, micro, phases);
  }
  expect_near(CountedAllocator::peak() - before, step_memory(parse_shape(model), {}, precision, step).total(),
              peak_tolerance);
}

std::vector<Case> cases() {
  const std::string deep = "layers=4,hidden=128,heads=4,seq=128,vocab=500", shared = ",style=llama,kv_heads=2";
  const std::string wide = "layers=2,hidden=256,heads=4,seq=32", words = "layers=2,hidden=64,heads=2,seq=64,vocab=2000";
  std::vector<Case> all;
  for (const auto& model :
       {deep, deep + shared, wide, words, words + ",tied=off", deep + ",dropout=0.1,optimizer=momentum",
        deep + shared + ",tied=off,dropout=0.1,optimizer=sgd"})
    for (const Precision precision : {Precision::float32, Precision::bfloat16})
      for (const int micros : {1, 3})
        for (const int recompute : {0, 1, 2})
          for (const double rows : {1., 4.})
            all.push_back({model,
                           precision,
                           {.rows = rows, .micro_batches = micros, .recompute = recompute, .last_output = rows > 1}});
  all.push_back({deep + ",dropout=0.1", Precision::float64, {.rows = 2}});
  all.push_back({deep + shared, Precision::float64, {.rows = 2, .recompute = 1}});
  // Every sixth case has the same values of recompute and rows, so with 6 shares one share would not vary them.
  return drawn(all, 7);
}

INSTANTIATE_TEST_SUITE_P(Settings, StepsOfAGpt, testing::ValuesIn(cases()));

std::vector<Parameter> trained_by(const Rank& rank, size_t first, size_t last) {
  std::vector<Parameter> found;
  for (size_t i = first; i < last; ++i)
    for (const auto& layer : rank.model->blocks()[i].layers)
      for (const auto& item : layer->named_parameters())
        if (std::ranges::none_of(found, [&](const Parameter& one) { return one.tensor.is_same(item.value()); }))
          found.push_back({std::to_string(i) + item.key(), item.value()});
  return found;
}

class StepsOfAGptDividedAmongRanks : public testing::TestWithParam<std::tuple<Division, Precision, int>> {};

TEST_P(StepsOfAGptDividedAmongRanks, PeakMemoryIsWithin5PercentOfTheMemoryForecast) {
  const auto& [division, precision, recompute] = GetParam();
  const CountedAllocator counted;
  const double before = CountedAllocator::live();
  const Rank rank(division.model, division.cut, precision, /*rows=*/4);
  rank.model->recompute(recompute);
  const auto trained = trained_by(rank, 0, rank.model->blocks().size());
  Optimizer optimizer(rank.workload.optimizer(), trained);
  for (int64_t i = 0; i < 2; ++i) {
    for (const Parameter& one : trained) one.tensor.mutable_grad().reset();
    CountedAllocator::forget_peak();
    const at::Tensor output = rank.run(0, rank.model->blocks().size(), rank.batch.input);
    backward(rank.loss(output));
    optimizer.step(i);
  }
  const Step step{.rows = 4, .recompute = recompute, .last_output = false};
  expect_near(CountedAllocator::peak() - before, step_memory(rank.shape, division.cut, precision, step).total(),
              peak_tolerance);
}

const std::string three = ",layers=3";

INSTANTIATE_TEST_SUITE_P(
    Shapes, StepsOfAGptDividedAmongRanks,
    testing::Combine(testing::Values(Division{gpt2 + three, {.tp = 2}},
                                     Division{gpt2 + three + ",tied=off", {.tp = 4, .sequence = true}},
                                     Division{llama + three, {.tp = 2, .sequence = true}},
                                     Division{llama + three + ",dropout=0.1", {.tp = 4}},
                                     Division{gpt2 + three, {.cp = 2}}, Division{llama + three, {.tp = 2, .cp = 2}}),
                     testing::Values(Precision::float32, Precision::bfloat16), testing::Values(0, 1)));

// The stage has the two middle layers of a model of four. It runs its passes in the order of 1F1B, with two
// micro-batches alive.
TEST(StageOfAGpt, PeakMemoryIsWithin5PercentOfTheMemoryForecast) {
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    const CountedAllocator counted;
    const Rank rank(gpt2 + ",layers=4", {}, precision, /*rows=*/4);
    const auto trained = trained_by(rank, 2, 4);
    const double before = CountedAllocator::live();
    Optimizer optimizer(rank.workload.optimizer(), trained);
    struct Live {
      at::Tensor input, output;
    };
    std::deque<Live> live;
    const auto forward = [&] {
      live.push_back({at::zeros({4, rank.shape.seq, rank.shape.hidden}).requires_grad_(), {}});
      live.back().output = rank.run(2, 4, live.back().input);
    };
    const auto backwards = [&] {
      backward(live.front().output, at::ones_like(live.front().output));
      live.pop_front();
    };
    CountedAllocator::forget_peak();
    forward(), forward(), backwards(), forward(), backwards();
    backwards();
    optimizer.step(0);
    const Step step{.rows = 4, .micro_batches = 3, .live = 2};
    double stored = 0;
    for (const Parameter& one : trained) stored += bytes_of(one.tensor);
    expect_near(CountedAllocator::peak() - before + stored,
                step_memory(rank.shape, {.layers = 2, .embed = false, .head = false}, {}, precision, step).total(),
                peak_tolerance);
  }
}

TEST(MemoryForecast, RefusesModelsWithExperts) {
  const Shape shape = parse_shape("tiny-experts");
  for (const Part part : {Part::embed, Part::layer}) EXPECT_THROW(parameters(shape, part, {}), UsageError);
  try {
    step_memory(shape, {}, Precision::float32, {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("--model experts=5"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dpbench::gpt
