// Tests the judges: functions that compare the tensors of a strategy's steps with the expected ones and return check
// results. Handmade tensors of a correct strategy pass; each single change to them fails the check that covers it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <ATen/ATen.h>

#include "harness/conform/evidence/exchange.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judge_course.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/judges/signatures/output_pattern.h"
#include "harness/conform/judging.h"
#include "harness/conform/oracle/course.h"
#include "harness/conform/scenario/altered_workload.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

const Workload& workload() {
  static const auto made = workload_registry().at("probe-mlp-sgd").make({});
  return *made;
}

const StrategyInfo& declared() {
  static const StrategyInfo info{.name = "by-hand", .summary = "", .make = {}};
  return info;
}

TEST(RelativeError, IgnoresNonFiniteElementsThatAreEqualInBothTensors) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto error = [](const std::vector<double>& found, const std::vector<double>& expected) {
    return relative_error(at::tensor(found, at::kDouble), at::tensor(expected, at::kDouble), 0);
  };
  EXPECT_EQ(error({inf, nan, 4}, {inf, nan, 4}), 0);
  EXPECT_DOUBLE_EQ(error({inf, nan, 3, 4}, {inf, nan, 3, 5}), 1 / std::sqrt(34.0));
  EXPECT_EQ(error({inf, 1}, {-inf, 1}), inf);
  EXPECT_EQ(error({1, 1}, {nan, 1}), inf);
  EXPECT_EQ(error({1e200, 1e200}, {1, 1}), inf) << "finite, but its norm is not";
}

// If the probe's input had two equal rows or columns, a swap of two samples or of two elements would go unnoticed.
TEST(WorkloadProbeExact, HasDistinctSamplesAndFeaturesAndNoProductsThatCancelInASum) {
  const auto exact = workload_registry().at("probe-exact").make({});
  const Batch all = exact->batch(at::arange(exact->samples()));
  for (const at::Tensor& lines : {all.input, all.input.t()})
    EXPECT_EQ(std::get<0>(at::unique_dim(lines.contiguous(), 0)).size(0), lines.size(0));
  const auto parameters = exact->model(5)->named_parameters();
  at::Tensor weights = at::cat({parameters["weight"].view(-1), parameters["bias"]}).detach();
  EXPECT_TRUE((all.input * weights).lt(0).all().item<bool>());
}

class ConformanceChecks : public testing::Test {
 protected:
  ConformanceChecks()
      : bench_{declared(), workload(), {Parallelism::ranks, 3, 4, workload().samples()}, 0, {}, {at::Device(at::kCPU)},
               {},         1} {
    scenario_.name = "even";
    scenario_.gradient_check = "gradient-meaning";
    scenario_.against_one_device = true;
    scenario_.steps = 1;
    Evidence start;
    const auto model = first_model(bench_);
    for (const auto& item : model->named_parameters())
      start.parameters.emplace_back(item.key(), item.value().detach().to(at::kDouble));
    for (int rank = 0; rank < 3; ++rank)
      ranks_.emplace_back(start).steps.push_back(
          {.ids = ids_of(scenario_, bench_.distribution, bench_.seed, /*step=*/0, rank)});
    const Trial first = make_trial(bench_, scenario_, {}, ranks_);
    for (int rank = 0; rank < 3; ++rank) {
      Evidence& evidence = ranks_[static_cast<size_t>(rank)];
      evidence = right(evidence, first.names, first.expected[0], rank);
    }
  }

  // Returns the tensors that a correct strategy would report on this rank.
  static Evidence right(Evidence evidence, const std::vector<std::string>& names, const ExpectedStep& expected,
                        int rank) {
    evidence.rank = rank;
    StepEvidence& step = evidence.steps[0];
    const Shard& mine = expected.shards[static_cast<size_t>(rank)];
    step.output = mine.output, step.loss = mine.loss;
    for (size_t p = 0; p < names.size(); ++p) {
      step.gradients.emplace_back(names[p], expected.gradient[p].clone());
      const double rate = learning_rate(workload().optimizer(), 0);
      step.parameters.emplace_back(names[p], *find(evidence.parameters, names[p]) - rate * expected.gradient[p]);
    }
    return evidence;
  }

  Rows judged() {
    const Trial trial = make_trial(bench_, scenario_, {}, ranks_);
    Rows rows;
    for (const Judge judge : {judge_start, judge_outputs, judge_gradients, judge_agreement, judge_optimizer})
      judge(trial, rows);
    return rows;
  }

  CheckRow row(const std::string& name) {
    const Rows rows = judged();
    const CheckRow* found = rows.find(name);
    EXPECT_NE(found, nullptr) << name << " was never judged";
    return found ? *found : CheckRow{.name = name, .status = CheckStatus::skipped};
  }

  StepEvidence& step(int rank) { return ranks_[static_cast<size_t>(rank)].steps[0]; }

  Bench bench_;
  Scenario scenario_;
  std::vector<Evidence> ranks_;
};

TEST_F(ConformanceChecks, PassForACorrectStrategy) {
  size_t passed = 0;
  const Rows rows = judged();
  for (const auto& row : rows.all()) {
    EXPECT_EQ(row.status, row.name == "ranks-agree-state" ? CheckStatus::skipped : CheckStatus::passed)
        << row.name << " " << row.detail;
    passed += row.status == CheckStatus::passed;
  }
  EXPECT_GE(passed, 10U);
}

TEST_F(ConformanceChecks, NameParameterIndexAndBothValuesOfAWrongGradient) {
  step(1).gradients[2].second[1][2] += 0.5;
  const CheckRow found = row("gradient-meaning");
  EXPECT_EQ(found.status, CheckStatus::failed);
  EXPECT_TRUE(mentions(found.detail, {"w1", "[1, 2]", "rank 1", "step 0", "expected", "found"}));
  EXPECT_EQ(row("ranks-agree-gradients").status, CheckStatus::failed);
}

// Runs the check collective-order for four ranks and returns its result. bytes[r]: sizes of the all-gathers that rank r
// calls over the axis `shard`, in order.
CheckRow order_on_a_mesh(const std::vector<std::vector<int64_t>>& bytes) {
  const Distribution distribution{Parallelism::ranks, 4, 4, workload().samples(), parse_mesh("dp=2,shard=2")};
  const Bench bench{declared(), workload(), distribution, 0, {}, {at::Device(at::kCPU)}, {}, 1};
  const Scenario scenario{.name = "working", .gradient_check = "", .keep_reductions = true};
  Trial trial{bench, scenario, {}, {}, {}, {}, {}};
  for (const auto& mine : bytes) {
    StepEvidence& step = trial.ranks.emplace_back().steps.emplace_back();
    for (const int64_t one : mine)
      step.collectives.push_back({.op = CollectiveOp::allgather, .bytes = one, .axis = "shard"});
  }
  Rows rows;
  judge_reductions(trial, rows);
  const CheckRow* found = rows.find("collective-order");
  return found ? *found : CheckRow{.name = "collective-order", .status = CheckStatus::skipped};
}

TEST(CheckOfCollectiveOrder, NamesTheRankWhoseCallDiffersFromThatOfMostRanks) {
  EXPECT_EQ(order_on_a_mesh({{8, 4}, {8, 4}, {8, 4}, {8, 4}}).status, CheckStatus::passed);
  EXPECT_EQ(order_on_a_mesh({{8, 4}, {8, 4}, {8}, {8}}).status, CheckStatus::passed)
      << "the groups differ, not the ranks";
  const auto expect_named = [](const std::vector<std::vector<int64_t>>& bytes,
                               std::initializer_list<std::string_view> words) {
    const CheckRow row = order_on_a_mesh(bytes);
    EXPECT_EQ(row.status, CheckStatus::failed);
    EXPECT_TRUE(mentions_in_order(row.detail, words));
  };
  expect_named({{8, 4}, {8, 4}, {8, 4}, {4, 8}},
               {"collective 0 over shard:", "rank 3", "allgather of 4 bytes", "rank 2", "allgather of 8 bytes"});
  expect_named({{8, 4}, {8, 4}, {4, 8}, {8, 4}},
               {"collective 0 over shard:", "rank 2", "allgather of 4 bytes", "rank 3", "allgather of 8 bytes"});
  expect_named({{8}, {8, 4}, {8, 4}, {8, 4}},
               {"collective 1 over shard:", "rank 0", "nothing", "rank 1", "allgather of 4 bytes"});
}

TEST_F(ConformanceChecks, NameASumOverRanksInsteadOfAMeanAsTheLikelyCause) {
  for (int rank = 0; rank < 3; ++rank)
    for (auto& [name, gradient] : step(rank).gradients) gradient.mul_(3);
  EXPECT_TRUE(mentions_in_order(row("gradient-meaning").likely, {"summed", "3 ranks"}));
}

// The norm of a rank's part of the gradient is below the limit on some ranks, which then do not clip.
TEST_F(ConformanceChecks, NameTheAxisOverWhichGradientsWereSummedAfterTheirNormWasTaken) {
  const ExpectedStep expected = make_trial(bench_, scenario_, {}, ranks_).expected[0];
  const double limit = 0.3 * norm(expected.gradient);  // at least one of the three parts has a larger norm
  for (size_t rank = 0; rank < 3; ++rank) {
    std::vector<double> shares(3, 0);
    shares[rank] = expected.shares[rank];
    const double factor = std::min(1.0, limit / (norm(combine(expected.shards, shares)) + 1e-6));
    for (auto& [name, gradient] : step(static_cast<int>(rank)).gradients) gradient.mul_(factor);
  }
  Rows rows;
  judge_gradients(make_trial(bench_, scenario_, limit, ranks_), rows);
  EXPECT_TRUE(mentions(rows.find("gradient-meaning")->likely, {"norm", "before the sum over the axis dp"}));
  for (int rank = 0; rank < 3; ++rank)
    for (size_t p = 0; p < expected.gradient.size(); ++p) step(rank).gradients[p].second = expected.gradient[p];
  rows = {};
  judge_gradients(make_trial(bench_, scenario_, limit, ranks_), rows);
  EXPECT_TRUE(mentions(rows.find("gradient-meaning")->likely, {"not clipped"}));
}

// Rounding to float16, rounding to bfloat16 and other mistakes can give equally large errors. Only the gradient's
// values show whether one of the two dtypes caused the error.
TEST_F(ConformanceChecks, NameRoundingToFloat16OrBfloat16AsTheLikelyCauseOfWrongGradients) {
  const auto wrong = [this](const std::function<at::Tensor(const at::Tensor&)>& change) {
    const auto kept = ranks_;
    for (int rank = 0; rank < 3; ++rank)
      for (auto& [name, gradient] : step(rank).gradients) gradient = change(gradient);
    const std::string likely = row("gradient-meaning").likely;
    ranks_ = kept;
    return likely;
  };
  const auto half = wrong([](const at::Tensor& g) { return g.to(at::kHalf).to(at::kDouble); });
  EXPECT_TRUE(mentions(half, {"float16"}) && !mentions(half, {"bfloat16"})) << half;
  const auto brain = wrong([](const at::Tensor& g) { return g.to(at::kBFloat16).to(at::kDouble); });
  EXPECT_TRUE(mentions(brain, {"bfloat16"}) && !mentions(brain, {" float16"})) << brain;
  const auto sum = wrong([](const at::Tensor& g) { return (g * 3).to(at::kHalf).to(at::kDouble) / 3; });
  EXPECT_TRUE(mentions(sum, {"float16"})) << "a sum in float16, then divided: " << sum;
  const auto neither = wrong([](const at::Tensor& g) {
    return g * (1 + 1.5e-3 * (1 - 2 * at::arange(g.numel()).remainder(2)).view(g.sizes()).to(at::kDouble));
  });
  EXPECT_FALSE(mentions(neither, {"rounded"})) << neither;
}

TEST_F(ConformanceChecks, NameTheElementsOfAGradientThatAreWrong) {
  const auto likely = [this](const std::function<void(at::Tensor)>& change) {
    const auto kept = ranks_;
    for (int rank = 0; rank < 3; ++rank) {
      at::Tensor& gradient = step(rank).gradients[2].second;
      gradient = gradient.clone();
      change(gradient);
    }
    const std::string text = row("gradient-meaning").likely;
    ranks_ = kept;
    return text;
  };
  const auto expect = [](const std::string& text, std::initializer_list<std::string_view> words) {
    EXPECT_TRUE(mentions_in_order(text, words));
  };
  expect(likely([](const at::Tensor& w) { w[1][2] *= 0.5; }), {"parameter w1: ", "[1, 2]", "0.5 times"});
  expect(likely([](const at::Tensor& w) { w[1].mul_(3.5); }), {"row 1 ", "3.5 times"});
  expect(likely([](const at::Tensor& w) { w.select(1, 2).zero_(); }), {"column 2 ", "zero"});
  expect(likely([](const at::Tensor& w) { w.flatten().slice(0, w.size(1) + 1).add_(0.5); }), {"from index [1, 1]"});
  expect(likely([](const at::Tensor& w) { w.flatten().slice(0, 0, w.size(1) + 1).add_(0.5); }),
         {"before index [1, 1]"});
  expect(likely([](const at::Tensor& w) { w[0][1] += 0.5, w[1][0] += 0.3; }), {"only 2 of "});
}

TEST(DiagnosisOfWrongOutputs, NamesTheTokenTheSamplesOrTheIndicesThatAreWrong) {
  const at::Tensor tokens = at::tensor({1, 2, 3, 4, 5, 2, 7, 8, 9}, at::kLong).view({3, 3});
  const at::Tensor due = at::ones({3, 3, 4});
  MeshShape mesh;
  const auto pattern = [&](const std::function<void(at::Tensor)>& change) {
    const at::Tensor found = due.clone();
    change(found);
    return output_pattern(found, due, tokens, mesh, 1e-9);
  };
  EXPECT_EQ(pattern([](const at::Tensor&) {}), "");
  EXPECT_TRUE(mentions(pattern([](at::Tensor x) { x[0].slice(0, 1).add_(1), x[1].slice(0, 2).add_(1); }),
                       {"each sample", "token 2 "}));
  EXPECT_TRUE(mentions(pattern([](at::Tensor x) { x[1].add_(1); }), {"samples 1 of 3 "}));
  EXPECT_TRUE(mentions(pattern([](at::Tensor x) { x[0].add_(1), x[2].add_(1); }), {"samples 0, 2 of 3 "}));
  const std::string at_1_and_2 = pattern([](at::Tensor x) { x.slice(1, 1).add_(1); });
  EXPECT_TRUE(mentions(at_1_and_2, {"indices 1 to 2 of dimension 1 "}));
  EXPECT_TRUE(mentions(pattern([](at::Tensor x) { x.select(2, 3).fill_(NAN); }), {"index 3 of dimension 2 "}));
  EXPECT_EQ(pattern([](at::Tensor x) { x.add_(1); }), "");
  mesh = parse_mesh("dp=2,tp=2");  // the mesh's axis tp has two ranks; the first of them has two of the three tokens
  EXPECT_TRUE(mentions_in_order(pattern([](at::Tensor x) { x.slice(1, 2).add_(1); }),
                                {"index 2 of dimension 1 ", "rank 1 of the axis tp"}));
  EXPECT_EQ(pattern([](at::Tensor x) { x.slice(1, 1).add_(1); }), at_1_and_2) << "the tokens of no rank";
}

TEST(DiagnosisOfWrongOutputs, NamesThePositionsOfTokensThatWereMovedOrLost) {
  const at::Tensor due = at::arange(2 * 5 * 3).view({2, 5, 3});
  const auto order = [&](const std::vector<int64_t>& tokens) {
    return token_order(due.index_select(1, at::tensor(tokens)), due, 1e-9);
  };
  EXPECT_EQ(order({0, 1, 2, 3, 4}), "");
  EXPECT_TRUE(mentions(order({3, 4, 0, 1, 2}), {"wrong order: 3 to 4, 0 to 2"}));
  EXPECT_TRUE(mentions(order({0, 1, 2, 0, 1}), {"missing", "twice: 0 to 2, 0 to 1"}));
  EXPECT_EQ(token_order(due + 0.5, due, 1e-9), "") << "no token is right";
  EXPECT_EQ(token_order(at::full_like(due, NAN, at::kDouble), due, 1e-9), "") << "NaN is equal to no token";
  EXPECT_EQ(token_order(due.select(1, 0), due.select(1, 1), 1e-9), "") << "outputs without tokens";
}

TEST_F(ConformanceChecks, NameTheSamplesWhoseOutputsAreWrong) {
  step(1).output = step(1).output.clone();
  step(1).output[0].add_(1);
  EXPECT_TRUE(mentions(row("output-value").likely, {"samples 0 of", "another rank"}));
}

TEST_F(ConformanceChecks, NameAFreedParameterAsTheLikelyCauseOfNanOutputsIfTheStrategyShardsParameters) {
  const StrategyInfo sharded{.name = "by-hand", .summary = "", .axes = {"shard"}, .make = {}};
  const Bench bench{sharded, workload(), bench_.distribution, 0, {}, bench_.devices, {}, 1};
  step(1).output = at::full_like(step(1).output, NAN);
  const auto likely = [this](const Bench& of) {
    Rows rows;
    judge_outputs(make_trial(of, scenario_, {}, ranks_), rows);
    return rows.find("output-value")->likely;
  };
  EXPECT_TRUE(mentions(likely(bench), {"output is NaN", "after it was freed", "before it was gathered"}));
  EXPECT_FALSE(mentions(likely(bench_), {"freed"})) << "a strategy that frees no parameters";
}

TEST_F(ConformanceChecks, FailForARelativeErrorOfOneInABillion) {
  step(0).gradients[0].second.mul_(1 + 1e-9);
  EXPECT_EQ(row("gradient-meaning").status, CheckStatus::failed);
}

TEST_F(ConformanceChecks, PassForGradientsThatDifferByRounding) {
  for (int rank = 0; rank < 3; ++rank) step(rank).gradients[0].second.mul_(1 + 1e-14);
  EXPECT_EQ(row("gradient-meaning").status, CheckStatus::passed);
}

// Outputs near 1e300 make the error and its bound infinite, so their ratio is NaN. NaN must not pass.
TEST_F(ConformanceChecks, FailIfTheErrorOfAGradientIsNotFinite) {
  const AlteredWorkload beyond(workload(), 1e300);
  const Bench bench{declared(), beyond, bench_.distribution, 0, {}, bench_.devices, {}, 1};
  scenario_.smooth = true, scenario_.dtype = at::kFloat, scenario_.gradient_check = "gradient-accuracy";
  for (auto& evidence : ranks_)
    for (auto& [name, gradient] : evidence.steps[0].gradients) gradient = at::Tensor();
  Rows rows;
  judge_accuracy(make_trial(bench, scenario_, {}, ranks_), rows);
  EXPECT_EQ(rows.find("gradient-accuracy")->status, CheckStatus::failed);
}

// Float32 gradients are not compared on a GPU: the oracle repeats each rank's passes on the CPU, whose kernels round
// differently.
TEST_F(ConformanceChecks, SkipTheFloat32GradientReplayOnAGpuWhichRoundsDifferently) {
  scenario_.dtype = at::kFloat, scenario_.gradient_check = "gradient-replay";
  for (auto& evidence : ranks_)
    for (auto* tensors : {&evidence.parameters, &evidence.steps[0].gradients})
      for (auto& [name, tensor] : *tensors) tensor = tensor.to(at::kFloat) * (1 + 1e-5);
  for (const auto& [device, status] :
       {std::pair{at::Device(at::kCPU), CheckStatus::failed}, {at::Device(at::kCUDA, 0), CheckStatus::skipped}}) {
    bench_.devices = {device};
    Rows rows;
    judge_replay(make_trial(bench_, scenario_, {}, ranks_), rows);
    EXPECT_EQ(rows.find("gradient-replay")->status, status);
  }
}

TEST_F(ConformanceChecks, FailForAnUndefinedGradient) {
  step(2).gradients[0].second = at::Tensor();
  EXPECT_EQ(row("gradient-meaning").status, CheckStatus::failed);
  EXPECT_NE(row("gradient-meaning").detail, "");
}

TEST_F(ConformanceChecks, FailForOneBitThatDiffersBetweenRanks) {
  at::Tensor& bias = step(2).parameters[1].second;
  bias[0] = std::nextafter(bias[0].item<double>(), 1e9);
  EXPECT_EQ(row("ranks-agree-parameters").status, CheckStatus::failed);
  EXPECT_EQ(row("gradient-meaning").status, CheckStatus::passed);
}

TEST_F(ConformanceChecks, SkipTheCheckOfTheCollectiveCountIfNoRankCalledAReduction) {
  Rows rows;
  const Trial trial = make_trial(bench_, scenario_, {}, ranks_);
  judge_collective_count(count_reductions(trial), trial, rows);
  EXPECT_EQ(rows.find("collective-count")->status, CheckStatus::skipped);
}

TEST_F(ConformanceChecks, SkipTheCheckOfOptimizerStateIfNoRankReportsAny) {
  EXPECT_EQ(row("ranks-agree-state").status, CheckStatus::skipped);
  for (auto& evidence : ranks_) evidence.steps[0].state = {{"w0.momentum", at::ones({2})}};
  EXPECT_EQ(row("ranks-agree-state").status, CheckStatus::passed);
  ranks_[1].steps[0].state.clear();
  EXPECT_EQ(row("ranks-agree-state").status, CheckStatus::failed);
}

TEST_F(ConformanceChecks, FailForAWrongStepSize) {
  for (int rank = 0; rank < 3; ++rank) step(rank).parameters[0].second.add_(step(rank).gradients[0].second, -1e-6);
  EXPECT_EQ(row("optimizer-replay").status, CheckStatus::failed);
}

TEST_F(ConformanceChecks, DetectAMistakeIfRanksReportOnlySampledElementsOfAParameter) {
  scenario_.sample = {.most_elements = 10, .seed = 7};
  for (Evidence& evidence : ranks_) {
    for (auto& [name, tensor] : evidence.steps[0].parameters) tensor = scenario_.sample.of(tensor).clone();
    // rank 0 reports whole parameters, from which the oracle starts; the other ranks report selected elements
    if (evidence.rank == 0) continue;
    for (auto& [name, tensor] : evidence.parameters) tensor = scenario_.sample.of(tensor).clone();
  }
  const auto deviation = [&] {
    const Trial trial{bench_, scenario_, {}, ranks_, {}, {}, {}};
    return course_deviation(trial, course_of(bench_, scenario_, {}, ranks_, /*exact=*/true), {});
  };
  EXPECT_LE(deviation().error, 1) << deviation().where;
  at::Tensor part;
  for (auto& [name, tensor] : ranks_[1].steps[0].parameters)
    if (name == "w1") part = tensor;
  ASSERT_EQ(part.numel(), 10);
  part[3] += 0.01;
  EXPECT_GT(deviation().error, 1);
  expect_contains(deviation().where, {"parameter w1, index [3]", "10 elements", " 1 on, 5 apart", "rank 1"});
}

TEST(SampledElements, AreEvenlySpacedSpanMoreThanAThirdOfATensorAndReachItsEndsForSomeSeeds) {
  for (const int64_t elements : {11, 20, 31, 63, 1000, 1001}) {
    const at::Tensor all = at::arange(elements);
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Sample sample{.most_elements = 10, .seed = seed};
      const at::Tensor chosen = sample.of(all);
      ASSERT_EQ(chosen.numel(), 10) << elements;
      EXPECT_TRUE(chosen.diff().eq(sample.stride(elements)).all().item<bool>()) << elements;
      EXPECT_EQ(sample.stride(elements) % 2, 1) << elements;
      EXPECT_GT(3 * 10 * sample.stride(elements), elements) << "the elements cover a third of the tensor or less";
      EXPECT_EQ(chosen[0].item<int64_t>(), sample.first(elements));
      EXPECT_TRUE(seed % 4 != 0 || chosen[0].item<int64_t>() == 0) << elements;
      EXPECT_TRUE(seed % 4 != 1 || chosen[9].item<int64_t>() == elements - 1) << elements;
    }
  }
}

// Float32 runs of the oracle that round differently show how far a correct strategy may be from the float64 run.
TEST_F(ConformanceChecks, RoundFloat32RunsOfTheOracleDifferentlyForDifferentSeedsOnly) {
  scenario_.dtype = at::kFloat;
  for (Evidence& evidence : ranks_)
    for (auto& [name, tensor] : evidence.parameters) tensor = tensor.to(at::kFloat);
  const auto loss = [&](uint64_t jitter) {
    return course_of(bench_, scenario_, {}, ranks_, /*exact=*/false, jitter).ranks[0].losses[0].item<double>();
  };
  const double exact = course_of(bench_, scenario_, {}, ranks_, /*exact=*/true).ranks[0].losses[0].item<double>();
  std::set<double> losses;
  for (uint64_t jitter = 0; jitter < 4; ++jitter) {
    losses.insert(loss(jitter));
    EXPECT_EQ(loss(jitter), loss(jitter)) << "a jitter is a seed";
    EXPECT_NEAR(loss(jitter), exact, 1e-5 * std::abs(exact));
  }
  EXPECT_GT(losses.size(), 1U);
}

// The bound of a parameter's error is a multiple of the largest error of several float32 runs of the oracle.
TEST_F(ConformanceChecks, LimitParameterErrorsToAMultipleOfTheLargestErrorOfSeveralFloat32OracleRuns) {
  scenario_.dtype = at::kFloat;
  const auto end = [](double bias) {
    CourseEnd last;
    last.parameters = {{"bias", at::full({40}, bias, at::kDouble)}};
    last.losses = {at::Tensor()};
    return Course{.ranks = {last}, .unknown = ""};
  };
  Evidence start;
  start.parameters = {{"bias", at::zeros({40}, at::kFloat)}};
  start.steps.resize(1);
  start.steps[0].parameters = {{"bias", at::full({40}, 1.001e-3, at::kFloat)}};
  const std::vector<Evidence> ranks = {start};
  const Trial trial{bench_, scenario_, {}, ranks, {}, {}, {}};
  RoundingErrors rounding;
  rounding.add(trial, end(1e-3), end(1e-3));
  EXPECT_GT(course_deviation(trial, end(1e-3), rounding).error, 1);
  rounding.add(trial, end(1e-3), end(1.0005e-3));
  EXPECT_LE(course_deviation(trial, end(1e-3), rounding).error, 1);
}

// Without a float32 run of the oracle, parameters may differ by the rounding error of a single float32 pass.
TEST_F(ConformanceChecks, LimitParameterErrorsToTheRoundingOfOneFloat32PassIfTheOracleHasNoFloat32Run) {
  scenario_.dtype = at::kFloat;
  const auto error = [&](double relative) {
    Evidence start;
    start.parameters = {{"bias", at::zeros({40}, at::kFloat)}};
    start.steps.resize(1);
    start.steps[0].parameters = {{"bias", at::full({40}, 1e-3 * (1 + relative), at::kFloat)}};
    CourseEnd due;
    due.parameters = {{"bias", at::full({40}, 1e-3, at::kDouble)}};
    due.losses = {at::Tensor()};
    const std::vector<Evidence> ranks = {start};
    return course_deviation(Trial{bench_, scenario_, {}, ranks, {}, {}, {}}, Course{.ranks = {due}, .unknown = ""}, {})
        .error;
  };
  EXPECT_LE(error(1e-6), 1);
  EXPECT_GT(error(1e-4), 1);
}

// Adam's variance tells the size of a parameter's gradients. Gradients below epsilon are rounding errors, which differ
// between correct strategies.
TEST_F(ConformanceChecks, AllowParametersToDifferIfTheirGradientsAreRoundingErrors) {
  const auto adam = workload_registry().at("probe-mlp").make({});
  const Bench bench{declared(), *adam, {Parallelism::ranks, 1, 4, adam->samples()}, 0, {}, {at::Device(at::kCPU)},
                    {},         1};
  const double epsilon = adam->optimizer().epsilon;
  ASSERT_EQ(adam->optimizer().kind, OptimizerSpec::Kind::adam);
  scenario_.dtype = at::kFloat;
  const auto error = [&](double size) {
    Evidence start;
    start.parameters = {{"bias", at::zeros({40}, at::kFloat)}};
    start.steps.resize(1);
    start.steps[0].parameters = {{"bias", at::full({40}, 2e-7F)}};
    const std::vector<Evidence> ranks = {start};
    CourseEnd due;
    due.parameters = {{"bias", at::full({40}, 1e-7, at::kDouble)}};
    due.state = {{state_name("bias", Slot::variance), at::full({40}, size * size * 1e-3, at::kDouble)}};
    due.losses = {at::Tensor()};
    const Course course{.ranks = {due}, .unknown = ""};
    const Trial trial{bench, scenario_, {}, ranks, {}, {}, {}};
    RoundingErrors rounding;
    rounding.add(trial, course, course);
    return course_deviation(trial, course, rounding).error;
  };
  EXPECT_LE(error(0.1 * epsilon), 1);
  EXPECT_GT(error(1e-9 * epsilon), 1) << "smaller rounding errors cannot move a parameter so far";
  EXPECT_GT(error(100 * epsilon), 1) << "gradients above epsilon are no rounding errors";
}

TEST_F(ConformanceChecks, FailIfARankReportsLossAndOutputOfAnotherRank) {
  std::swap(step(0).loss, step(1).loss);
  std::swap(step(0).output, step(1).output);
  EXPECT_EQ(row("loss-value").status, CheckStatus::failed);
  EXPECT_EQ(row("output-value").status, CheckStatus::failed);
  EXPECT_EQ(row("output-shape").status, CheckStatus::passed);
}

TEST_F(ConformanceChecks, FailForAWrongOutputDtypeEvenUnderAutocast) {
  scenario_.dtype = at::kBFloat16;
  for (auto& evidence : ranks_) evidence.steps[0].output = evidence.steps[0].output.to(at::kFloat);
  const auto detail_for = [this](at::ScalarType type) {
    step(2).output = step(2).output.to(type);
    Rows rows;
    judge_outputs(make_trial(bench_, scenario_, {}, ranks_), rows);
    return rows.find("output-dtype")->detail;
  };
  EXPECT_EQ(detail_for(at::kFloat), "");
  EXPECT_TRUE(
      mentions(detail_for(at::kBFloat16), {"expected Float", "found BFloat16", "rank 2", "step 0", "scenario even"}));
  EXPECT_TRUE(
      mentions(detail_for(at::kDouble), {"expected Float", "found Double", "rank 2", "step 0", "scenario even"}));
}

TEST_F(ConformanceChecks, FailForANonFiniteLoss) {
  step(1).loss = at::full({}, std::nan(""), at::kDouble);
  EXPECT_EQ(row("loss-finite").status, CheckStatus::failed);
}

TEST_F(ConformanceChecks, FailForInitialWeightsThatWereNotBroadcast) {
  ranks_[1].parameters[0].second = ranks_[1].parameters[0].second + 1;
  EXPECT_TRUE(mentions(row("initial-broadcast").detail, {"rank 1"}));
}

TEST_F(ConformanceChecks, FailForParameterNamesWithThePrefixOfAModelWrapper) {
  for (Evidence& rank : ranks_)
    for (auto& [name, tensor] : rank.parameters) name.insert(0, "module.");
  EXPECT_EQ(row("initial-broadcast").status, CheckStatus::failed);
  EXPECT_TRUE(mentions(row("initial-broadcast").likely, {"wrapper", "\"module.\""}));
}

TEST_F(ConformanceChecks, ReportAMissingNameIfParameterNamesHaveThePrefixOfAModelWrapper) {
  for (auto& [name, tensor] : ranks_[0].parameters) name.insert(0, "module.");
  const Course course = course_of(bench_, scenario_, {}, ranks_, /*exact=*/true);
  EXPECT_TRUE(mentions(course.unknown, {"parameters() has no \"w0\""})) << course.unknown;
}

TEST(ErrorInACheck, IsReportedWithoutTorchsBacktrace) {
  Rows rows;
  Judging judging(rows);
  Scenario scenario;
  scenario.name = "even";
  judging.later(scenario, [] { TORCH_CHECK(false, "no such shape"); });
  judging.finish();
  ASSERT_NE(rows.find("run-completes"), nullptr);
  EXPECT_EQ(rows.find("run-completes")->status, CheckStatus::failed);
  const std::string& detail = rows.find("run-completes")->detail;
  EXPECT_TRUE(mentions(detail, {"scenario even", "no such shape"}));
  EXPECT_TRUE(detail.ends_with("no such shape")) << detail;
}

TEST(RecordedResults, OfARankSurviveSerialisationToBytes) {
  Evidence sent;
  sent.rank = 2;
  sent.error = "late";
  sent.echo = true;
  sent.parameters = {{"a", at::arange(6.0).view({2, 3})}, {"none", at::Tensor()}};
  sent.steps.resize(2);
  sent.steps[1].ids = {at::arange(3)};
  sent.steps[1].collectives = {
      {CollectiveOp::allreduce, ReduceKind::SUM, 48, true, {at::ones({2})}, {at::zeros({2}, at::kHalf)}}};
  const auto pool = pool_of(sent);
  std::vector<uint64_t> known = {pool.begin()->first};
  const Evidence got = from_bytes(to_bytes(sent, known), pool);
  EXPECT_EQ(got.rank, 2);
  EXPECT_EQ(got.error, "late");
  EXPECT_TRUE(got.echo);
  EXPECT_TRUE(got.parameters[0].second.equal(sent.parameters[0].second));
  EXPECT_FALSE(got.parameters[1].second.defined());
  EXPECT_TRUE(got.steps[1].ids[0].equal(at::arange(3)));
  EXPECT_EQ(got.steps[1].collectives[0].output[0].scalar_type(), at::kHalf);
  const std::string whole = to_bytes(sent, {});
  EXPECT_THROW(from_bytes(whole.substr(0, whole.size() / 2), {}), std::runtime_error);
}

TEST(TensorComparison, TellsMinusZeroFromZeroAndFloatFromDouble) {
  const at::Tensor zero = at::zeros({1}), minus = -at::zeros({1}), nan = at::full({1}, std::nan(""));
  EXPECT_TRUE(same_bits(nan, nan.clone()));
  EXPECT_FALSE(same_bits(zero, minus));
  EXPECT_FALSE(same_bits(zero, zero.to(at::kDouble)));
  EXPECT_FALSE(same_bits(zero, nan));
}

TEST(TensorComparison, TreatsNonFiniteDifferencesAsInfinite) {
  const at::Tensor one = at::ones({2}), nan = at::full({2}, std::nan(""));
  EXPECT_TRUE(std::isinf(relative_error(nan, one, 0)));
  EXPECT_EQ(relative_error(nan, nan, 0), 0);
  EXPECT_TRUE(std::isinf(largest_ratio(nan, one, one)));
  EXPECT_DOUBLE_EQ(largest_ratio(one * 3, one, at::full({2}, 4.0)), 0.5);
}

TEST(Scenarios, GiveEachRankAndStepItsOwnSamples) {
  const Distribution distribution{Parallelism::ranks, 3, 4, 211};
  for (const auto& scenario : scenarios(distribution, at::kFloat, true, 5)) {
    if (scenario.same_samples || scenario.unwatched) continue;
    std::set<int64_t> seen;
    int64_t rows = 0;
    for (int64_t step = 0; step < scenario.steps; ++step)
      for (int rank = 0; rank < 3; ++rank)
        for (const auto& ids : ids_of(scenario, distribution, 5, step, rank)) {
          rows += ids.numel();
          for (int64_t i = 0; i < ids.numel(); ++i) seen.insert(ids[i].item<int64_t>());
        }
    EXPECT_GT(rows, 0) << scenario.name;
    EXPECT_EQ(static_cast<int64_t>(seen.size()), rows) << scenario.name;
  }
}

TEST(Scenarios, EvaluateOnSampleCountsThatDifferBetweenRanksAndMayExceedABatch) {
  const Distribution distribution{Parallelism::ranks, 3, 4, 211};
  const Scenario even{.name = "even", .gradient_check = "", .evaluates_between = true},
      other{.name = "other", .gradient_check = ""};
  std::set<int64_t> drawn_counts;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto count = [&](const Scenario& scenario, int64_t step, int rank, bool alike) {
      return evaluated_ids(scenario, distribution, seed, step, rank, alike).numel();
    };
    drawn_counts.insert(count(other, 2, 0, false));
    EXPECT_NE(count(other, 2, 0, false), count(other, 2, 1, false));
    EXPECT_EQ(count(other, 2, 0, true), count(other, 2, 1, true));
    EXPECT_LE(count(even, 0, 0, false), 3);
    EXPECT_GT(count(even, 2, 0, false), 4) << "more than a rank's batch";
  }
  EXPECT_EQ(drawn_counts, (std::set<int64_t>{1, 2, 3}));
}

TEST(Scenarios, ChangeTheNumberOfMicroBatchesFromStepToStep) {
  const auto numbers = [](int64_t accumulate) {
    const Scenario scenario{.name = "", .gradient_check = "", .accumulate = accumulate, .varies_micros = true};
    std::vector<int64_t> all;
    for (int64_t step = 0; step < 4; ++step) all.push_back(micros_in(scenario, step));
    return all;
  };
  EXPECT_EQ(numbers(1), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(numbers(2), (std::vector<int64_t>{2, 1, 2, 1}));
  EXPECT_EQ(numbers(3), (std::vector<int64_t>{3, 1, 3, 1}));
  EXPECT_EQ(numbers(4), (std::vector<int64_t>{4, 2, 1, 4}));
  const Distribution distribution{Parallelism::ranks, 3, 4, 211};
  for (const Scenario& scenario : scenarios(distribution, at::kFloat, true, 5)) {
    if (!scenario.varies_micros) continue;
    for (int64_t step = 0; step < scenario.steps; ++step)
      EXPECT_EQ(static_cast<int64_t>(ids_of(scenario, distribution, 5, step, 0).size()), micros_in(scenario, step));
  }
}

TEST(Scenarios, ReloadTheStateBeforeStep1Or2DependingOnTheSeed) {
  std::set<int64_t> before;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const Scenario& scenario : scenarios({Parallelism::ranks, 3, 4, 211}, at::kFloat, true, seed))
      if (scenario.name == "reload") before.insert(scenario.reload_before);
  EXPECT_EQ(before, (std::set<int64_t>{1, 2}));
}

TEST(Scenarios, HaveMoreThanSixMicroBatchesOrBeginAfterStep30ForSomeSeeds) {
  std::set<int64_t> micros, first;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const Scenario& scenario : scenarios({Parallelism::ranks, 3, 4, 211}, at::kFloat, true, seed)) {
      if (scenario.name == "accumulate-working") micros.insert(scenario.accumulate);
      if (scenario.name == "twenty") first.insert(scenario.first);
    }
  EXPECT_LT(*micros.begin(), 6);
  EXPECT_GT(*micros.rbegin(), 6);
  EXPECT_EQ(*first.begin(), 0);
  EXPECT_GT(*first.rbegin(), 30);
}

TEST(Scenarios, UseTpSettingsThatRevealMistakesExceptWhereTheBytesOfCollectivesAreChecked) {
  const auto plain = [](const std::string& mesh) {
    std::set<std::string> names;
    for (const auto& scenario : scenarios({Parallelism::ranks, 2, 4, 211, parse_mesh(mesh)}, at::kFloat, true, 5))
      if (!scenario.revealing) names.insert(scenario.name);
    return names;
  };
  EXPECT_EQ(plain("dp=2,tp=2"), (std::set<std::string>{"working", "clip-working"}));
  EXPECT_GT(plain("dp=2,pp=2").size(), 2u);
}

TEST(Scenarios, UnwatchedShufflesEveryEpochAndEndsItWithAShortBatch) {
  const Distribution distribution{Parallelism::ranks, 3, 4, 211};
  const Scenario scenario{.name = "unwatched", .gradient_check = "", .accumulate = 2, .steps = 14, .unwatched = true};
  std::vector<std::vector<int64_t>> epochs(1);
  std::set<int64_t> sizes;
  for (int64_t step = 0; step < scenario.steps; ++step) {
    int64_t rows = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const auto micro = ids_of(scenario, distribution, 5, step, rank);
      ASSERT_EQ(micro.size(), 2U);
      for (const auto& ids : micro) {
        ASSERT_GT(ids.numel(), 0);
        rows += ids.numel();
        for (int64_t i = 0; i < ids.numel(); ++i) epochs.back().push_back(ids[i].item<int64_t>());
      }
    }
    sizes.insert(rows);
    if (rows < 24) epochs.emplace_back();
  }
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_TRUE(epochs[2].empty()) << "the third epoch has not begun";
  EXPECT_EQ(sizes.size(), 2U) << "full batches and a short one";
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : {epochs[0], epochs[1]})
    EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), epoch.size());
}

TEST(Scenarios, SplitABatchIntoTheChunksOfTheDataParallelTutorials) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(chunk_sizes(30, 4), (Sizes{8, 8, 8, 6}));
  EXPECT_EQ(chunk_sizes(10, 3), (Sizes{4, 4, 2}));
  EXPECT_EQ(chunk_sizes(10, 8), (Sizes{2, 2, 2, 2, 2}));
  EXPECT_EQ(chunk_sizes(30, 8), (Sizes{4, 4, 4, 4, 4, 4, 4, 2}));
}

}  // namespace
}  // namespace dpbench
