#include "harness/report/export/export.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"

namespace dpbench {
namespace {

using namespace test;

TEST(ExportGbench, HasOneEntryPerLaunchOfEachSuccessfulCase) {
  const Json json = parse_json(gbench_json(full_report()), "export");
  ASSERT_EQ(json["benchmarks"].size(), 6u) << "cpu and ddp, three launches each; not the wrong, failed, skipped ones";
  const Json& last = json["benchmarks"][5];
  EXPECT_EQ(last["name"], "ddp:shm:bucket_mb=1/mnist-mlp/cpu:2/global_batch:128/dtype:f32");
  EXPECT_EQ(last["run_type"], "iteration");
  EXPECT_EQ(last["repetitions"], 3);
  EXPECT_EQ(last["repetition_index"], 2);
  EXPECT_EQ(last["iterations"], 30);
  EXPECT_EQ(last["time_unit"], "ns");
  EXPECT_DOUBLE_EQ(last["real_time"].get<double>(), 1250);
  EXPECT_EQ(last["cpu_time"], last["real_time"]);
  EXPECT_DOUBLE_EQ(last["items_per_second"].get<double>(), 128 / 1250e-9);
}

TEST(ExportGbench, HasTheContextFieldsThatReadersOfGoogleBenchmarkRequire) {
  const Json context = parse_json(gbench_json(full_report()), "export")["context"];
  EXPECT_EQ(context["date"], "2026-11-21T06:30:57+00:00");
  EXPECT_EQ(context["json_schema_version"], 1);
  EXPECT_EQ(context["caches"], Json::array());
  EXPECT_GE(context["num_cpus"].get<int>(), 1);
}

TEST(ExportGbench, AcceptsAReportWithoutAnEnvironment) {
  EXPECT_EQ(parse_json(gbench_json(report_of({measured("cpu", 1, Scaling::weak, 64, 10000)})),
                       "export")["context"]["num_cpus"],
            1);
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

TEST(ExportJunit, CountsPassedFailedCrashedAndSkippedTests) {
  const std::string xml = junit_xml(full_report());
  EXPECT_EQ(count(xml, "<testsuite "), 6u);
  EXPECT_NE(xml.find("tests=\"7\" failures=\"1\" errors=\"2\" time="), std::string::npos) << xml;
  EXPECT_EQ(count(xml, "<failure "), 1u);
  EXPECT_EQ(count(xml, "<error "), 2u);
  EXPECT_EQ(count(xml, "<skipped "), 2u);
  EXPECT_NE(xml.find("<testcase classname=\"cpu/mnist-mlp/cpu:1/weak/b64/f32\" name=\"run\" time=\"0.000090\"/>"),
            std::string::npos);
  EXPECT_NE(xml.find("rank 2 was killed by signal 9 at step 17"), std::string::npos);
}

// The case ddp has eight blocks of 12,500 ns, and one in which the slowest rank took 20,000 ns. The blocks of all cases
// take 336,000 ns.
TEST(ExportJunit, TimesOfTestsAddUpToTheTimedBlocksOfTheirCase) {
  expect_contains(junit_xml(full_report()),
                  {"errors=\"2\" time=\"0.000336\">",
                   "bucket_mb=1\" tests=\"2\" failures=\"0\" errors=\"0\" "
                   "skipped=\"1\" time=\"0.000120\">",
                   "name=\"output-shape\" time=\"0.000120\"/>", "name=\"loss-falls\" time=\"0.000000\">"});
}

TEST(ExportJunit, TimeOfACaseWithoutTimedBlocksIsItsWholeDuration) {
  CaseRecord checked = measured("cpu", 1, Scaling::weak, 64, 10000);
  checked.launches.clear();
  checked.elapsed_s = 2.5;
  expect_contains(junit_xml(report_of({checked})), {"skipped=\"0\" time=\"2.500000\">"});
}

TEST(ExportJunit, ADisturbedCaseIsSkippedWithItsReason) {
  Report report = report_of({measured("cpu", 1, Scaling::weak, 64, 10000)});
  report.cases[0].launches[0].disturbed_blocks = 20;
  summarise(report);
  const std::string xml = junit_xml(report);
  EXPECT_EQ(count(xml, "<skipped "), 1u) << xml;
  expect_contains(xml, {"20 of 29 blocks"});
}

TEST(ExportJunit, EscapesXml) {
  const std::string xml = junit_xml(full_report());
  expect_contains(xml, {"n.1.weight[3]: &lt;expected&gt; 1 &amp; found &quot;2&quot;", "gradients with float64 oracle",
                        "1e-12", "sum instead of mean"});
  CaseRecord odd = measured("cpu", 1, Scaling::weak, 64, 10000);
  odd.status = CaseStatus::failed;
  odd.reason = "a\x1b[31m\nb\x01";
  const std::string clean = junit_xml(report_of({odd}));
  expect_contains(clean, {"a?[31m&#10;b?"});
}

}  // namespace
}  // namespace dpbench
