// Output of a comparison of two runs: table rows, summary, JSON and GitHub annotations.
#include "harness/report/validate/schema.h"
#include "tests/unit/report/compared.h"

namespace dpbench {
namespace {

using namespace test;

// Returns a comparison of four cases: one slower, one unclear, one broken, and one that is missing from the new run.
Comparison one_of_each() {
  CaseRecord wrong = measured("dp", 2, Scaling::weak, 64, 10000);
  wrong.checks = {{.name = "output-shape", .status = CheckStatus::failed, .detail = "100%\nwrong"}};
  return compared(
      run_of({ddp(base_times), cpu({500, 600, 700, 800}), measured("gone", 1, Scaling::weak, 64, 1)}, "base"),
      run_of({ddp(slower_times), cpu({500, 600, 700, 800}), wrong}));
}

TEST(Output, ComparisonTableHasARowForEveryCase) {
  const auto rows = compare_rows(one_of_each());
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1], (std::vector<std::string>{"ddp/mnist-mlp/cpu:2/shm/weak/b64/f32", "median:5%", "0.0009999 ms",
                                               "0.001075 ms", "+7.5 %", "[+5.2, +9.9]", "SLOWER", ""}));
  EXPECT_EQ(rows[2][6], "unclear");
  EXPECT_NE(rows[2][7], "") << "the reason";
  EXPECT_EQ(rows[3][6], "FAILED");
  EXPECT_EQ(rows[4][6], "gone");
  for (const auto& row : rows) EXPECT_EQ(row.size(), compare_columns_right().size());
}

TEST(Output, ComparisonSummaryHasCountsAndTheResultOfTheGate) {
  expect_contains(compare_summary(one_of_each()), {"1 broken", "1 worse", "1 unclear", "1 gone", "FAILED"});
  const Report run = run_of({ddp(base_times)});
  expect_contains(compare_summary(compared(run, run)), {"1 same", "passed"});
}

TEST(Output, ComparisonIsAvailableAsJson) {
  const Json json = parse_json(compare_json(one_of_each()).dump(), "output");
  EXPECT_EQ(json["gate"], "failed");
  EXPECT_EQ(json["judged"][0]["verdict"], "SLOWER");
  EXPECT_EQ(json["judged"][0]["failed"], true);
  // The estimate 0.0723665905 is a difference of logarithms of step times, so the change is exp(0.0723665905) - 1.
  EXPECT_NEAR(json["judged"][0]["change_percent"].get<double>(), 7.504939, 1e-5);
  EXPECT_EQ(json["broken"][0]["case"], "dp/mnist-mlp/cpu:2/weak/b64/f32");
  EXPECT_EQ(json["gone"].size(), 1u);
  EXPECT_EQ(schema_problems(json, compare_schema()), std::vector<std::string>{});
}

TEST(Output, ADropOfThroughputIsShownAsNegative) {
  const Comparison result =
      compared(run_of({ddp({1000, 1001, 999, 1000})}), run_of({ddp({2000, 2001, 1999, 2000})}), "throughput:5%");
  const auto row = compare_rows(result).at(1);
  EXPECT_EQ(row[4], "-50.0 %");
  EXPECT_EQ(row[5], "[-50.1, -49.9]");
}

TEST(Output, SpecialCharactersInGithubAnnotationsAreEscaped) {
  const auto lines = github_annotations(one_of_each());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(
      lines[0],
      "::error title=dpbench SLOWER::ddp/mnist-mlp/cpu:2/shm/weak/b64/f32 +7.5 %25 [+5.2, +9.9], rule median:5%25");
  EXPECT_TRUE(lines[1].starts_with("::warning title=dpbench unclear::cpu/"));
  EXPECT_NE(lines[2].find("100%25%0Awrong"), std::string::npos) << lines[2];
}

}  // namespace
}  // namespace dpbench
