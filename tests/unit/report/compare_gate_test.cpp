// The rules of a gate: as flags, and in a file for each case.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/report/compared.h"

namespace dpbench {
namespace {

using namespace test;
namespace fs = std::filesystem;

TEST(Rules, AreReadWithTheirUnits) {
  EXPECT_NEAR(parse_rule("median:5%").limit, std::log(1.05), 1e-15);
  EXPECT_NEAR(parse_rule("throughput:5%").limit, -std::log(0.95), 1e-15);
  EXPECT_EQ(parse_rule("efficiency:2.5").limit, 2.5);
  EXPECT_EQ(make_gate({"median:5%,p99:10%", "peak-memory:3%"}).rules.size(), 3u);
  EXPECT_EQ(make_gate({}).rules.at(0).text, "median:5%");
}

TEST(Rules, WhatCannotBeReadIsRefusedWithTheWayOut) {
  for (const char* wrong :
       {"", "median", "median:", "median:5", "median:%", "median:-5%", "median:0%", "median:nan%", "median:100%",
        "median:5%%", "median: 5%", "efficiency:3%", "mean:5%", "Median:5%", ":5%", "median:inf%", "median:1e9%"})
    EXPECT_THROW(parse_rule(wrong), UsageError) << wrong;
  EXPECT_NE(refusal([] {
              parse_rule("speed:5%");
            }).find("median, p99, throughput, efficiency, peak-memory, ratio-to-baseline"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_rule("efficiency:3%"); }).find("efficiency:3 (percentage points)"), std::string::npos);
}

class GateFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dpbench-gate-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    here_ = name;
  }
  void TearDown() override { fs::remove_all(here_); }
  Gate read(const std::string& text) {
    std::ofstream(here_ / "gate.json") << text;
    return read_gate(here_ / "gate.json");
  }
  fs::path here_;
};

TEST_F(GateFile, GivesEachCaseTheRulesOfTheFirstPatternThatMatches) {
  const Gate gate = read(R"({"fail_on": ["median:5%"], "cases": [
      {"match": "ddp/convnet/*", "fail_on": []},
      {"match": "ddp/*", "fail_on": ["median:8%", "p99:20%"]}]})");
  EXPECT_EQ(gate.rules_for("cpu/convnet/cpu:1").size(), 1u);
  EXPECT_EQ(gate.rules_for("ddp/mnist-mlp/cpu:2/shm/weak/b64/f32").size(), 2u);
  EXPECT_TRUE(gate.rules_for("ddp/convnet/cpu:2").empty());
}

TEST_F(GateFile, WhatCannotBeReadIsRefused) {
  for (const char* wrong :
       {"", "[]", "{}", R"({"fail_on": "median:5%"})", R"({"fail_on": ["median"]})", R"({"fail-on": []})",
        R"({"fail_on": [], "cases": [{"match": "x"}]})", R"({"fail_on": [], "cases": [{"fail_on": []}]})",
        R"({"fail_on": [], "cases": [{"match": "x", "fail_on": [], "limit": 3}]})", R"({"fail_on": [5]})"})
    EXPECT_THROW(read(wrong), UsageError) << wrong;
  EXPECT_THROW(read_gate(here_ / "absent.json"), UsageError);
}

TEST_F(GateFile, AGateThatRulesNothingIsNotGreen) {
  const Report run = run_of({ddp(base_times)});
  EXPECT_EQ(refusal([&] { compare(run, run, read(R"({"fail_on": []})")); }),
            "nothing was judged: the gate has no rule for a case of both runs");
}

TEST_F(GateFile, APatternThatFitsNoCaseIsRefused) {
  const Report run = run_of({ddp(base_times)});
  const std::string text = R"({"fail_on": ["median:5%"], "cases": [{"match": "ddp/mnist-mpl/*", "fail_on": []}]})";
  EXPECT_NE(refusal([&] { compare(run, run, read(text)); }).find(R"("ddp/mnist-mpl/*" matches no case)"),
            std::string::npos);
  const Report wider = run_of({ddp(base_times), measured("ddp", 3, Scaling::weak, 64, 1000)});
  const std::string added = R"({"fail_on": ["median:5%"], "cases": [{"match": "*/cpu:3/*", "fail_on": []}]})";
  EXPECT_EQ(refusal([&] { compare(run, wider, read(added)); }), "not refused")
      << "a case of one run alone is no mistake";
}

TEST_F(GateFile, APatternThatOthersPrecedeIsTold) {
  const Report run = run_of({ddp(base_times)});
  const Gate gate = read(R"({"fail_on": [], "cases": [{"match": "ddp/*", "fail_on": ["median:5%"]},
                                                      {"match": "ddp/mnist-mlp/*", "fail_on": []}]})");
  const Comparison result = compare(run, run, gate);
  EXPECT_EQ(result.unused, (std::vector<std::string>{"ddp/mnist-mlp/*"}));
  EXPECT_NE(compare_notes(result).at(0).find("ddp/mnist-mlp/*"), std::string::npos);
}

}  // namespace
}  // namespace dpbench
