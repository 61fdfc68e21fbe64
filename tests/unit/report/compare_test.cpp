// Comparison of two runs: pairing of their cases, and conditions that fail the gate regardless of its rules.
#include "tests/unit/report/compared.h"

namespace dpbench {
namespace {

using namespace test;

TEST(Compare, ACaseWithAFailedCheckFailsTheGateWithoutASpeedVerdict) {
  CaseRecord wrong = ddp(base_times, 0.5);
  wrong.checks = {{.name = "gradient-vs-baseline", .status = CheckStatus::failed}};
  const Comparison result = compared(run_of({ddp(base_times)}), run_of({wrong}));
  EXPECT_TRUE(result.judged.empty());
  ASSERT_EQ(result.broken.size(), 1u);
  expect_contains(result.broken[0].why, {"gradient-vs-baseline"});
  EXPECT_TRUE(result.failed());
}

TEST(Compare, ANewCaseWithAFailedCheckFailsTheGate) {
  CaseRecord wrong = measured("dp", 2, Scaling::weak, 64, 10000);
  wrong.checks = {{.name = "output-shape", .status = CheckStatus::failed}};
  EXPECT_TRUE(compared(run_of({ddp(base_times)}), run_of({ddp(base_times), wrong})).failed());
}

TEST(Compare, ACrashedCaseFailsTheGate) {
  CaseRecord crashed = ddp({});
  crashed.status = CaseStatus::failed, crashed.reason = "rank 1 was killed by signal 11";
  const Comparison result = compared(run_of({ddp(base_times)}), run_of({crashed}));
  ASSERT_EQ(result.broken.size(), 1u);
  expect_contains(result.broken[0].why, {"failed", "rank 1 was killed by signal 11"});
}

TEST(Compare, ACrashedOrWrongCaseFailsTheGateWhateverItsStatusInTheBaseRun) {
  CaseRecord crashed = ddp({}), wrong = ddp(base_times), skipped = ddp({});
  crashed.status = CaseStatus::failed, crashed.reason = "boom";
  wrong.checks = {{.name = "output-shape", .status = CheckStatus::failed}};
  skipped.status = CaseStatus::skipped;
  for (const CaseRecord& before : {crashed, wrong, skipped})
    for (const CaseRecord& now : {crashed, wrong})
      EXPECT_TRUE(compared(run_of({cpu(base_baseline), before}), run_of({cpu(new_baseline), now})).failed())
          << before.status << " before";
}

TEST(Compare, ACaseWithoutMeasurementsIsInconclusive) {
  CaseRecord skipped = ddp({}), crashed = measured("dp", 2, Scaling::weak, 64, Times{});
  skipped.status = CaseStatus::skipped, skipped.reason = "no GPU";
  crashed.status = CaseStatus::failed, crashed.reason = "boom";
  const Report good = run_of({cpu(base_baseline), ddp(base_times), measured("dp", 2, Scaling::weak, 64, 10000)});
  const Comparison result = compared(good, run_of({cpu(base_baseline), skipped}));
  ASSERT_EQ(result.unmeasured.size(), 1u);
  expect_contains(result.unmeasured[0].why, {"new", "skipped", "no GPU"});
  EXPECT_TRUE(result.inconclusive());
  EXPECT_FALSE(result.failed());
  const Comparison fixed = compared(run_of({cpu(base_baseline), crashed}), good);
  expect_contains(fixed.unmeasured.at(0).why, {"base", "failed", "boom"});
  expect_contains(refusal([&] { compared(run_of({ddp(base_times)}), run_of({skipped})); }),
                  {"ddp/mnist-mlp/cpu:2/shm/weak/b64/f32", "new", "skipped", "no GPU"});
}

TEST(Compare, CasesInOnlyOneRunAreListedAsNewOrGone) {
  const Comparison result = compared(run_of({ddp(base_times), measured("dp", 2, Scaling::weak, 64, 10000)}),
                                     run_of({ddp(base_times), cpu(base_baseline)}));
  ASSERT_EQ(result.added.size(), 1u);
  ASSERT_EQ(result.gone.size(), 1u);
  EXPECT_EQ(result.added[0].case_id, "cpu/mnist-mlp/cpu:1/weak/b64/f32");
  EXPECT_EQ(result.gone[0].case_id, "dp/mnist-mlp/cpu:2/weak/b64/f32");
  EXPECT_FALSE(result.failed());
}

TEST(Compare, RefusesRunsWithoutACommonCase) {
  expect_contains(refusal([] { compared(run_of({ddp(base_times)}, "old"), run_of({cpu(base_baseline)})); }),
                  {"new (1)", "old (1)"});
  EXPECT_NE(refusal([] { compared(run_of({}), run_of({})); }), "not refused");
}

Report on_machine(Report report, const std::string& pointer, const Json& value) {
  report.env = {
      {"cpu", {{"model", "EPYC"}, {"usable", 2}}}, {"gpus", Json::array()}, {"versions", {{"torch", "2.11.0"}}}};
  report.env[Json::json_pointer(pointer)] = value;
  return report;
}

TEST(Compare, RefusesDifferentMachinesAndNamesTheField) {
  const Report base = on_machine(run_of({ddp(base_times)}), "/cpu/model", "EPYC");
  const Report other = on_machine(run_of({ddp(base_times)}), "/cpu/model", "Xeon");
  expect_contains(refusal([&] { compared(base, other); }), {"cpu.model", "EPYC", "Xeon", "--allow-env-diff"});
  for (const auto& [pointer, value] :
       std::vector<std::pair<const char*, Json>>{{"/cpu/usable", 4},
                                                 {"/cpu/governor", "powersave"},
                                                 {"/limits/cpus", 1.5},
                                                 {"/variables/OMP_NUM_THREADS", "4"},
                                                 {"/gpus", Json::array({{{"name", "H200"}}})},
                                                 {"/driver/nvidia", "580"}})
    EXPECT_NE(refusal([&] { compared(base, on_machine(base, pointer, value)); }), "not refused") << pointer;
  const Comparison allowed = compare(base, other, make_gate({}), true);
  EXPECT_EQ(allowed.judged.at(0).verdict, Verdict::same);
  EXPECT_EQ(allowed.differences.at(0).field, "cpu.model") << "allowed but still reported";
}

TEST(Compare, NotesDifferentSoftwareVersions) {
  const Report base = on_machine(run_of({ddp(base_times)}), "/cpu/model", "EPYC");
  const Comparison result = compared(base, on_machine(base, "/versions/torch", "2.15.0"));
  ASSERT_EQ(result.differences.size(), 1u);
  expect_contains(compare_notes(result).at(0), {"versions.torch", "2.11.0", "2.15.0"});
}

TEST(Compare, RatiosToTheBaselineOfARunAreComparedEvenAcrossMachines) {
  const Report base = on_machine(run_of({cpu(base_baseline), ddp(base_times)}), "/cpu/model", "EPYC");
  const Report other = on_machine(run_of({cpu({250, 255, 245, 250}), ddp({500, 505, 495, 500})}), "/cpu/model", "Xeon");
  EXPECT_EQ(compared(base, other, "ratio-to-baseline:10%").judged.at(0).verdict, Verdict::same);
  EXPECT_EQ(compared(base, other, "efficiency:5,ratio-to-baseline:10%").judged.size(), 2u);
  EXPECT_NE(refusal([&] { compared(base, other, "ratio-to-baseline:10%,median:5%"); }), "not refused");
}

TEST(Compare, ARatioToTheBaselineNeedsTheBaselineInBothRuns) {
  const Comparison result = compared(run_of({cpu(base_baseline), ddp(base_times)}),
                                     run_of({cpu(new_baseline), ddp(base_times)}), "ratio-to-baseline:20%");
  EXPECT_EQ(result.judged.size(), 1u);
  const auto without_baseline = [] {
    compared(run_of({ddp(base_times)}), run_of({cpu(new_baseline), ddp(base_times)}), "ratio-to-baseline:5%");
  };
  expect_contains(refusal(without_baseline), {"ratio-to-baseline", "base run"});
}

TEST(Compare, RefusesDifferentCaseConfigurationsAndNamesTheField) {
  CaseRecord threads = ddp(base_times), files = ddp(base_times);
  threads.spec.threads = 4;
  files.spec.data_dir = "/data";
  const Report base = run_of({ddp(base_times)});
  expect_contains(refusal([&] { compared(base, run_of({threads})); }), {"threads", "1", "4"});
  expect_contains(refusal([&] { compared(base, run_of({files})); }), {"data", "files"});
  EXPECT_EQ(compare(base, run_of({threads}), make_gate({}), true).judged.size(), 1u);
}

}  // namespace
}  // namespace dpbench
