// Tests the memory that the checks hold. Keeping one step (parameters and gradients) of a large model takes gigabytes,
// so the checks keep only the tensors that they need.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/conform/scenario/choose_scenarios.h"
#include "harness/conform/suite.h"
#include "harness/worker/check/check_case.h"

namespace dpbench {
namespace {

using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Result {
  std::vector<CheckRow> rows;
  // Bytes of the results that the checks keep of each scenario (a training run that the checks compare).
  std::map<std::string, size_t> bytes;
  // True if the tensors of scenario `even` were freed before the end of scenario `unwatched`.
  bool even_was_released = false;
};

// Runs the checks that match the filter for mnist-mlp on one device. The parameters take 400 kB in float32. scenarios:
// those to run; empty: all.
Result run_with_filter(const std::string& filter, const std::vector<std::string>& scenarios = {}) {
  Result result;
  std::vector<Weak> even_parameters;
  const auto show = [&](const Bench&, const Scenario& scenario, std::optional<double>, const Evidence& evidence) {
    result.bytes[scenario.name] = to_bytes(evidence, {}).size();
    if (scenario.name == "even")
      for (const auto& [name, tensor] : evidence.steps.at(0).parameters)
        even_parameters.emplace_back(tensor.getIntrusivePtr());
    if (scenario.name == "unwatched")
      result.even_was_released = std::all_of(even_parameters.begin(), even_parameters.end(),
                                             [](const Weak& tensor) { return tensor.expired(); });
  };
  result.rows = run_checks({.strategy = strategy_registry().at("cpu"),
                            .workload = workload_registry().at("mnist-mlp"),
                            .options = {},
                            .store = {},
                            .devices = {at::Device(at::kCPU)},
                            .params = {},
                            .filter = filter,
                            .scenarios = scenarios,
                            .show = show});
  EXPECT_FALSE(even_parameters.empty());
  return result;
}

Result run_before_timing() { return run_with_filter(checks_before_timing({}), scenarios_before_timing({})); }

constexpr size_t parameter_bytes = 400000;

TEST(ChecksBeforeTiming, KeepOnlyLossesAndFinalStateOfTheScenarioUnwatched) {
  const Result result = run_before_timing();
  EXPECT_GT(result.bytes.at("working"), 4 * 2 * parameter_bytes);
  // Of the scenario `unwatched`, the checks keep the parameters at the start, and the parameters and gradients at the
  // end, all in float64.
  EXPECT_LT(result.bytes.at("unwatched"), 4 * 2 * parameter_bytes);
  const auto course = std::find_if(result.rows.begin(), result.rows.end(),
                                   [](const CheckRow& row) { return row.name == "trajectory"; });
  ASSERT_NE(course, result.rows.end());
  EXPECT_EQ(course->status, CheckStatus::passed) << course->detail;
  // The first number in the text of the check `trajectory` is the number of steps that the scenario `unwatched` took.
  const size_t digit = course->compared.find_first_of("0123456789");
  ASSERT_NE(digit, std::string::npos) << course->compared;
  const int steps = std::stoi(course->compared.substr(digit));
  EXPECT_GE(steps, 2);
  EXPECT_LE(steps, 64);
  for (const CheckRow& row : result.rows) EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
}

TEST(ChecksBeforeTiming, FreeTheTensorsOfAScenarioAfterItsVerdict) {
  EXPECT_TRUE(run_before_timing().even_was_released);
}

TEST(ChecksBeforeTiming, IncludeAllChecksOfTheirScenariosExceptThoseThatNeedASecondRun) {
  const Result result = run_before_timing();
  std::set<std::string> run, rows;
  for (const auto& [scenario, bytes] : result.bytes) run.insert(scenario);
  for (const CheckRow& row : result.rows) rows.insert(row.name);
  EXPECT_EQ(run, (std::set<std::string>{"even", "unwatched", "working"}));
  for (const char* name : {"evaluation", "finish", "gradient-layout", "loss-replay", "loss-value", "optimizer-replay",
                           "output-replay", "rows-untouched", "run-completes", "trajectory"})
    EXPECT_TRUE(rows.contains(name)) << name;
  for (const char* name : {"run-to-run", "world-1-bits"}) EXPECT_FALSE(rows.contains(name)) << name;
}

TEST(ChecksBeforeTiming, SelectOnlyScenariosThatExist) {
  CaseSpec spec;
  spec.world = 2, spec.accumulate = 2, spec.clip_norm = 1;
  std::set<std::string> all;
  for (const Scenario& scenario : scenarios({.world = 2}, at::kFloat, /*costly=*/true, 1)) all.insert(scenario.name);
  EXPECT_FALSE(scenarios_before_timing(spec).empty());
  for (const std::string& name : scenarios_before_timing(spec)) EXPECT_TRUE(all.contains(name)) << name;
}

TEST(ChecksBeforeTiming, UseTheCasesNumberOfMicroBatches) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  const Bench bench{strategy_registry().at("cpu"),
                    *workload,
                    {.parallelism = Parallelism::single, .samples = workload->samples()},
                    0,
                    {},
                    {at::Device(at::kCPU)},
                    {},
                    1};
  const auto micros = [&](int64_t own, bool brief, bool heavy = false) {
    std::map<std::string, int64_t> of;
    const CaseTraits traits{.heavy = heavy, .costly = true, .brief = brief, .own_micros = own};
    for (const Scenario& scenario : choose_scenarios(bench, traits)) of[scenario.name] = scenario.accumulate;
    return of;
  };
  const auto seven = micros(7, true);
  for (const char* name : {"accumulate", "accumulate-working", "clip-working", "unwatched"})
    EXPECT_EQ(seven.at(name), 7) << name;
  EXPECT_EQ(seven.at("even"), 1);
  EXPECT_EQ(micros(100, true).at("accumulate"), 16) << "at most, because the oracle computes each one";
  EXPECT_EQ(micros(100, true).at("unwatched"), 100);
  EXPECT_EQ(micros(7, true, /*heavy=*/true).at("accumulate"), 2) << "memory holds the gradient of each one";
  EXPECT_EQ(micros(7, true, /*heavy=*/true).at("unwatched"), 7);
  EXPECT_LE(micros(7, false).at("accumulate"), 5) << "`check` draws the number from the seed";
}

TEST(Checks, KeepAllTensorsOfTheTwentyStepScenarioIfACheckNeedsThem) {
  const Result result = run_with_filter("^(gradient-meaning|gradient-later|loss-falls)$");
  EXPECT_GT(result.bytes.at("twenty"), 20 * 2 * parameter_bytes);
  EXPECT_EQ(result.rows.size(), 3U);
}

TEST(Checks, SkipTheTwentyStepScenarioOfAModelWhoseTensorsTakeTooMuchMemory) {
  WorkloadOptions options;
  options.scale = 11;  // 21 M parameters
  const auto rows = run_checks({.strategy = strategy_registry().at("cpu"),
                                .workload = workload_registry().at("mnist-mlp"),
                                .options = options,
                                .store = {},
                                .devices = {at::Device(at::kCPU)},
                                .params = {},
                                .filter = "^gradient-later$",
                                .show = {}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].status, CheckStatus::skipped);
  EXPECT_NE(rows[0].detail.find("memory"), std::string::npos) << rows[0].detail;
}

}  // namespace
}  // namespace dpbench
