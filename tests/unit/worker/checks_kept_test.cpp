// How much the checks keep of what they see: of a large model every step that is kept is gigabytes.
#include <algorithm>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/conform/suite.h"
#include "harness/worker/check/check_case.h"

namespace dpbench {
namespace {

using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Seen {
  std::vector<CheckRow> rows;
  std::map<std::string, size_t> bytes;  // of the evidence of each scenario
  bool even_was_let_go = false;         // by the time that `twenty` was over
};

// mnist-mlp on one device: its parameters alone are 400 kB in float32.
Seen checked(const std::string& filter) {
  Seen seen;
  std::vector<Weak> of_even;
  const auto show = [&](const Bench&, const Scenario& scenario, std::optional<double>, const Evidence& evidence) {
    seen.bytes[scenario.name] = to_bytes(evidence, {}).size();
    if (scenario.name == "even")
      for (const auto& [name, tensor] : evidence.steps.at(0).parameters) of_even.emplace_back(tensor.getIntrusivePtr());
    if (scenario.name == "twenty")
      seen.even_was_let_go =
          std::all_of(of_even.begin(), of_even.end(), [](const Weak& tensor) { return tensor.expired(); });
  };
  seen.rows = run_checks({.strategy = strategy_registry().at("cpu"),
                          .workload = workload_registry().at("mnist-mlp"),
                          .options = {},
                          .store = {},
                          .group = {},
                          .devices = {at::Device(at::kCPU)},
                          .params = {},
                          .filter = filter,
                          .show = show});
  EXPECT_FALSE(of_even.empty());
  return seen;
}

constexpr size_t of_the_parameters = 400000;

TEST(ChecksBeforeTiming, KeepNothingButTheLossesOfTwentySteps) {
  const Seen seen = checked(checks_before_timing({}));
  EXPECT_GT(seen.bytes.at("working"), 4 * 2 * of_the_parameters);
  EXPECT_LT(seen.bytes.at("twenty"), 20U * 500);
  const auto learning =
      std::find_if(seen.rows.begin(), seen.rows.end(), [](const CheckRow& row) { return row.name == "loss-falls"; });
  ASSERT_NE(learning, seen.rows.end());
  EXPECT_EQ(learning->status, CheckStatus::passed) << learning->detail;
  for (const CheckRow& row : seen.rows) EXPECT_NE(row.status, CheckStatus::failed) << row.name << ": " << row.detail;
}

TEST(ChecksBeforeTiming, LetGoOfWhatIsJudged) { EXPECT_TRUE(checked(checks_before_timing({})).even_was_let_go); }

TEST(Checks, KeepAllOfTwentyStepsWhereMoreIsAsked) {
  const Seen seen = checked("^(gradient-meaning|gradient-later|loss-falls)$");
  EXPECT_GT(seen.bytes.at("twenty"), 20 * 2 * of_the_parameters);
  EXPECT_EQ(seen.rows.size(), 3U);
}

}  // namespace
}  // namespace dpbench
