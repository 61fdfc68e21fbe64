// Tests the rules of the gate, which let a comparison of two runs fail. Rules for all cases come from flags; a file
// gives rules to single cases.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/report/compared.h"

namespace dpbench {
namespace {

using namespace test;
namespace fs = std::filesystem;

TEST(Rules, GateRulesAreParsedWithTheirUnits) {
  EXPECT_NEAR(parse_rule("median:5%").limit, std::log(1.05), 1e-15);
  EXPECT_NEAR(parse_rule("throughput:5%").limit, -std::log(0.95), 1e-15);
  EXPECT_EQ(parse_rule("efficiency:2.5").limit, 2.5);
  EXPECT_EQ(make_gate({"median:5%,p99:10%", "peak-memory:3%"}).rules.size(), 3u);
  EXPECT_EQ(make_gate({}).rules.at(0).text, "median:5%");
}

TEST(Rules, InvalidGateRulesAreRefusedWithAListOfValidForms) {
  for (const char* wrong :
       {"", "median", "median:", "median:5", "median:%", "median:-5%", "median:0%", "median:nan%", "median:100%",
        "median:5%%", "median: 5%", "efficiency:3%", "mean:5%", "Median:5%", ":5%", "median:inf%", "median:1e9%"})
    EXPECT_THROW(parse_rule(wrong), UsageError) << wrong;
  expect_contains(refusal([] { parse_rule("speed:5%"); }),
                  {"median, p99, throughput, efficiency, peak-memory, ratio-to-baseline"});
  expect_contains(refusal([] { parse_rule("efficiency:3%"); }), {"efficiency:3 "});
}

TEST(Rules, AbsoluteLimitsAreParsedWithTheirUnits) {
  const std::vector<std::pair<const char*, double>> bounds = {{"median:<500us", 5e5},
                                                              {"median:<0.5ms", 5e5},
                                                              {"p99:<2s", 2e9},
                                                              {"p99:<1e3ns", 1e3},
                                                              {"peak-memory:<1.5GiB", 1.5 * (1 << 30)},
                                                              {"peak-memory:<64MiB", 1 << 26},
                                                              {"throughput:>1000", 1000},
                                                              {"efficiency:>80%", 0.8},
                                                              {"ratio-to-baseline:<0.6", 0.6},
                                                              {"ratio-to-baseline:<0.6x", 0.6}};
  for (const auto& [text, bound] : bounds) EXPECT_DOUBLE_EQ(parse_rule(text).bound.value_or(0), bound) << text;
  EXPECT_FALSE(parse_rule("median:5%").bound);
}

TEST(Rules, InvalidAbsoluteLimitsAreRefusedWithTheValidDirectionAndUnits) {
  for (const char* wrong :
       {"median:<", "median:<5", "median:<5%", "median:<5MiB", "median:<-5ms", "median:<0ms", "median:<nanms",
        "median:<infms", "median:<5 ms", "median:<=5ms", "throughput:>5ms", "efficiency:>80"})
    EXPECT_THROW(parse_rule(wrong), UsageError) << wrong;
  expect_contains(refusal([] { parse_rule("median:>5ms"); }), {"median:>5ms", "upper", "median:<20s"});
  expect_contains(refusal([] { parse_rule("throughput:<5"); }), {"lower", "throughput:>20"});
  expect_contains(refusal([] { parse_rule("peak-memory:<5MB"); }), {"B, KiB, MiB, GiB"});
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

TEST_F(GateFile, AppliesTheFirstMatchingPatternToEachCase) {
  const Gate gate = read(R"({"fail_on": ["median:5%"], "cases": [
      {"match": "ddp/convnet/*", "fail_on": []},
      {"match": "ddp/*", "fail_on": ["median:8%", "p99:20%"]}]})");
  EXPECT_EQ(gate.rules_for("cpu/convnet/cpu:1").size(), 1u);
  EXPECT_EQ(gate.rules_for("ddp/mnist-mlp/cpu:2/shm/weak/b64/f32").size(), 2u);
  EXPECT_TRUE(gate.rules_for("ddp/convnet/cpu:2").empty());
}

TEST_F(GateFile, RefusesFilesWithMissingUnknownOrInvalidKeys) {
  for (const char* wrong :
       {"", "[]", "{}", R"({"fail_on": "median:5%"})", R"({"fail_on": ["median"]})", R"({"fail-on": []})",
        R"({"fail_on": [], "cases": [{"match": "x"}]})", R"({"fail_on": [], "cases": [{"fail_on": []}]})",
        R"({"fail_on": [], "cases": [{"match": "x", "fail_on": [], "limit": 3}]})", R"({"fail_on": [5]})",
        R"({"fail_on": [""]})"})
    EXPECT_THROW(read(wrong), UsageError) << wrong;
  EXPECT_THROW(read_gate(here_ / "absent.json"), UsageError);
}

TEST_F(GateFile, RefusesAGateWithoutRules) {
  const Report run = run_of({ddp(base_times)});
  EXPECT_NE(refusal([&] { compare(run, run, read(R"({"fail_on": []})")); }), "not refused");
}

TEST_F(GateFile, RefusesAPatternThatMatchesNoCase) {
  const Report run = run_of({ddp(base_times)});
  const std::string text = R"({"fail_on": ["median:5%"], "cases": [{"match": "ddp/mnist-mpl/*", "fail_on": []}]})";
  expect_contains(refusal([&] { compare(run, run, read(text)); }), {"ddp/mnist-mpl/*"});
  const Report wider = run_of({ddp(base_times), measured("ddp", 3, Scaling::weak, 64, 1000)});
  const std::string added = R"({"fail_on": ["median:5%"], "cases": [{"match": "*/cpu:3/*", "fail_on": []}]})";
  EXPECT_EQ(refusal([&] { compare(run, wider, read(added)); }), "not refused")
      << "the pattern matches a case of the new run";
}

TEST_F(GateFile, ReportsAPatternShadowedByAnEarlierOne) {
  const Report run = run_of({ddp(base_times)});
  const Gate gate = read(R"({"fail_on": [], "cases": [{"match": "ddp/*", "fail_on": ["median:5%"]},
                                                      {"match": "ddp/mnist-mlp/*", "fail_on": []}]})");
  const Comparison result = compare(run, run, gate);
  EXPECT_EQ(result.unused, (std::vector<std::string>{"ddp/mnist-mlp/*"}));
  expect_contains(compare_notes(result).at(0), {"ddp/mnist-mlp/*"});
}

}  // namespace
}  // namespace dpbench
