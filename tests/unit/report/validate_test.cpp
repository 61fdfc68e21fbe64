#include "harness/report/validate/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "harness/report/record/find_run.h"
#include "harness/report/validate/duel_validate.h"
#include "tests/support/contains.h"
#include "tests/support/sample_reports.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using namespace test;

using Texts = std::vector<std::string>;

// Writes the report as JSON, parses it and returns the problems that validation finds, empty if there are none.
Texts problems_of(const Report& report) { return dpbench::problems_of(parse_json(to_json(report).dump(), "text")); }

const std::string ddp = "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32/bucket_mb=1: ";

TEST(Validate, FindsNoProblemInAValidReport) { EXPECT_EQ(problems_of(full_report()), Texts{}); }

TEST(Validate, FindsNoProblemInTheCommittedReports) {
  int found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(DPBENCH_SOURCE) / "results")) {
    const bool baseline = entry.path().parent_path().filename() == "baselines";
    if (entry.path().filename() != "run.json" && !(baseline && entry.path().extension() == ".json")) continue;
    if (!is_run_name(entry.path().parent_path().filename()) && !baseline) continue;
    ++found;
    EXPECT_EQ(dpbench::problems_of(read_document(entry.path())), Texts{}) << entry.path();
  }
  EXPECT_GT(found, 3);
}

// A forged report: `change` alters a figure of the case with two ranks in full_report(). The problem that validation
// reports must contain the texts `parts`.
struct Forgery {
  void (*change)(CaseRecord&);
  Texts parts;
};

Texts problems_after(void (*change)(CaseRecord&)) {
  Report report = full_report();
  change(report.cases[1]);
  return problems_of(report);
}

const std::vector<Forgery> forgeries = {
    {[](CaseRecord& c) {
       c.step_time_ns->median *= 0.9;
       *c.step_time_ns->ci95_low *= 0.9;
     },
     {"stats.step_time_ns.median"}},
    {[](CaseRecord& c) { c.step_time_ns->mad += 1; }, {"stats.step_time_ns.mad"}},
    {[](CaseRecord& c) { c.step_time_ns->p99 -= 1; }, {"stats.step_time_ns.p99"}},
    {[](CaseRecord& c) { c.step_time_ns->n = 8; }, {"stats.step_time_ns.n "}},
    {[](CaseRecord& c) { c.step_time_ns->interval = IntervalOver::samples; }, {"stats.step_time_ns.interval"}},
    {[](CaseRecord& c) {
       std::swap(c.step_time_ns->ci95_low, c.step_time_ns->ci95_high), *c.step_time_ns->ci95_low += 1;
     },
     {"stats.step_time_ns: ", "median"}},
    {[](CaseRecord& c) { c.derived.speedup = 2; }, {"derived.speedup"}},
    {[](CaseRecord& c) { c.derived.efficiency.reset(); }, {"derived.efficiency"}},
    {[](CaseRecord& c) { c.derived.gpu_power_w = 1; }, {"derived.gpu_power_w"}},
    {[](CaseRecord& c) { c.derived.straggler = 1; }, {"derived.straggler"}},
    {[](CaseRecord& c) { c.derived.flop_share = 1; }, {"derived.flop_share"}},
    {[](CaseRecord& c) { c.checks[0].status = CheckStatus::failed; }, {"ok", "wrong"}},
    {[](CaseRecord& c) { c.checks[0].error = 0.5; }, {"output-shape"}},
    {[](CaseRecord& c) { c.status = CaseStatus::wrong, c.reason = "x"; }, {"wrong"}},
    {[](CaseRecord& c) { c.status = CaseStatus::failed; }, {"failed", "reason"}},
    {[](CaseRecord& c) { c.launches[2].ranks.pop_back(); }, {"launch 2", "rank"}},
    {[](CaseRecord& c) { c.launches[2].ranks[1].rank = 0; }, {"launch 2", "rank"}},
    {[](CaseRecord& c) { c.launches[2].index = 0; }, {"launch 0"}},
    {[](CaseRecord& c) { c.launches[2].order = 0; }, {"order 0"}},
    {[](CaseRecord& c) { c.launches[2].index = -1; }, {"launches[2].index", "-1"}},
    {[](CaseRecord& c) { c.launches.pop_back(); }, {"2 launches", "3"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].samples_ns.pop_back(); }, {"launch 0", "rank 1", "rank 0"}},
    {[](CaseRecord& c) {
       for (auto& rank : c.launches[0].ranks) rank.samples_ns.push_back(12500);
     },
     {"launch 0", "rank 0", "3"}},
    {[](CaseRecord& c) {
       for (auto& rank : c.launches[0].ranks) rank.steps_per_sample = 11;
     },
     {"launch 0", "rank 0", "10"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].step_p90_ns = 1500; }, {"launch 0", "rank 1", "percentiles"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].peak_rss_bytes = -1; }, {"launches[0].ranks[1].peak_rss_bytes", "-1"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].own_rss_bytes = (1 << 28) + 1; }, {"launch 0", "rank 1", "own"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].phases_ns["forward"] = -1; }, {"launch 0", "rank 1", "forward"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->waiting_ns = -1; },
     {"launches[0].ranks[1].profile.waiting_ns", "-1.0"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->hidden_ns = 101; }, {"launch 0", "rank 1", "communication"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].bytes = -1; },
     {"launches[0].ranks[1].profile.collectives[0].bytes", "-1"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->ledger[0].formula_bytes = -1; },
     {"launches[0].ranks[1].profile.ledger[0].formula_bytes", "-1"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].start_ns = -1e300; },
     {"launch 0", "rank 1", "allreduce"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].end_ns = 499; },
     {"launch 0", "rank 1", "allreduce"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].end_ns.reset(); },
     {"launch 0", "rank 1", "allreduce"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->steps = 0; }, {"launches[0].ranks[1].profile.steps", "0"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].peak->triad_bytes_per_s = 0; },
     {"launches[0].ranks[1].peak.triad_bytes_per_s", "0.0"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].gpus[0].throttled_readings = 4; },
     {"launch 0", "rank 1", "00000000:1B:00.0"}},
    {[](CaseRecord& c) { c.launches[0].ranks[1].parameters_hash = "other"; }, {"ok", "wrong"}},
    {[](CaseRecord& c) { c.spec.processes = 3; }, {"3 processes", "2"}},
    {[](CaseRecord& c) { c.spec.threads = 0; }, {"threads", "0"}},
    {[](CaseRecord& c) { c.spec.clip_norm = 0; }, {"clip_norm", "0.0"}},
    {[](CaseRecord& c) { c.spec.seed = 2; }, {"seed"}},
    {[](CaseRecord& c) { c.spec.batch = 32; }, {"ddp/mnist-mlp/cpu:2/shm/weak/b32/f32/bucket_mb=1"}},
};

TEST(Validate, FindsEachForgedFigureOfACase) {
  for (const auto& [change, parts] : forgeries) {
    const Texts problems = problems_after(change);
    const auto matches = [&](const std::string& problem) {
      return (problem.starts_with(ddp) || problem.starts_with("report.cases[1].")) &&
             std::all_of(parts.begin(), parts.end(),
                         [&](const std::string& part) { return problem.find(part) != std::string::npos; });
    };
    EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), matches))
        << parts.back() << "\n  but: " << (problems.empty() ? "no problem" : problems.front());
  }
}

TEST(Validate, FindsADuplicateId) {
  Report report = full_report();
  report.cases[1].spec.id = report.cases[0].spec.id;
  EXPECT_TRUE(problems_of(report).at(0).starts_with(report.cases[0].spec.id + ": ")) << problems_of(report).at(0);
  expect_contains(problems_of(report).at(0), {"id"});
}

TEST(Validate, FindsAnInvalidRunId) {
  Report report = full_report();
  report.id = "mine";
  ASSERT_EQ(problems_of(report).size(), 1u);
  expect_contains(problems_of(report)[0], {"'mine'", "<UTC time>-<commit>-<machine>"});
}

TEST(Validate, FindsInvalidAndMissingPropertiesOfTheMachine) {
  Report report = full_report();
  report.env["cpu"]["usable"] = "two";
  report.env["gpus"][0].erase("name");
  report.env.erase("limits");
  const Texts problems = problems_of(report);
  ASSERT_EQ(problems.size(), 3u);
  expect_contains(problems[0], {"report.env.limits"});
  expect_contains(problems[1], {"report.env.cpu.usable", "two", "integer"});
  expect_contains(problems[2], {"report.env.gpus[0].name"});
}

TEST(Validate, FindsCasesThatTheConfigurationDoesNotInclude) {
  Report report = full_report();
  report.config["strategies"] = {"cpu", "dp", "gpu"};
  report.config["workloads"] = {"mnist-mlp"};
  const Texts problems = problems_of(report);
  ASSERT_EQ(problems.size(), 3u) << "one for each case of ddp";
  EXPECT_TRUE(problems[0].starts_with(ddp)) << problems[0];
  expect_contains(problems[0], {"strategy ddp"});
}

TEST(Validate, FindsAnInterruptedCaseInACompleteRun) {
  Report report = full_report();
  report.status = RunStatus::complete;
  ASSERT_EQ(problems_of(report).size(), 1u);
  expect_contains(problems_of(report)[0], {"interrupted"});
}

TEST(Validate, FindsPhasesThatAreNotTheMeanOverRanks) {
  Json document = to_json(full_report());
  document["cases"][1]["phases"]["mean_step_ns"]["forward"] = 699;
  const Texts problems = dpbench::problems_of(document);
  ASSERT_EQ(problems.size(), 1u);
  expect_contains(problems[0], {ddp + "phases.mean_step_ns.forward"});
}

TEST(Validate, FindsAForgedAnswer) {
  Json document = to_json(full_report());
  ASSERT_EQ(dpbench::problems_of(document), Texts{});
  document["answer"]["groups"][0]["choices"][0]["on_front"] = false;
  document["answer"]["groups"][0]["sentences"][0]["text"] = "ddp is the best of all.";
  document["answer"]["not_ranked"].erase(0);
  const Texts problems = dpbench::problems_of(document);
  ASSERT_EQ(problems.size(), 3u);
  expect_contains(problems[0], {"answer.groups[0].choices[0].on_front"});
  expect_contains(problems[1], {"answer.groups[0].sentences[0].text"});
  expect_contains(problems[2], {"answer.not_ranked"});
}

TEST(Validate, AcceptsOtherWordsInTheAnswerOfAnotherBuild) {
  Json document = to_json(full_report());
  document["tool"]["commit"] = "0000000";
  document["answer"]["groups"][0]["sentences"][0]["text"] = "In other words.";
  EXPECT_EQ(dpbench::problems_of(document), Texts{});
}

TEST(Validate, FindsAMissingAnswerInACompleteRun) {
  Json document = to_json(full_report());
  document["answer"] = nullptr;
  EXPECT_EQ(dpbench::problems_of(document), Texts{}) << "the run was interrupted";
  document["status"] = "complete";
  bool found = false;
  for (const std::string& problem : dpbench::problems_of(document)) found |= problem.starts_with("answer ");
  EXPECT_TRUE(found);
}

TEST(Validate, AnOlderReportMayLackFiguresOfLaterMinorVersions) {
  Json document = to_json(full_report());
  document["cases"][1]["derived"].erase("gpu_power_w");
  EXPECT_EQ(dpbench::problems_of(document).size(), 1u);
  document["schema_version"]["minor"] = 2;
  EXPECT_EQ(dpbench::problems_of(document), Texts{});
}

TEST(ValidateDuel, FindsForgedFiguresOfADuel) {
  const Json good = read_document(fs::path(DPBENCH_SOURCE) / "tests/golden/duel-1.0.json");
  const auto first_problem = [&](const char* pointer, const Json& value) {
    Json forged = good;
    forged[Json::json_pointer(pointer)] = value;
    const Texts problems = duel_problems_of(forged);
    return problems.empty() ? "" : problems.front();
  };
  const std::string id = good["cases"][0]["id"].get<std::string>() + ": ";
  EXPECT_EQ(duel_problems_of(good), Texts{});
  expect_contains(first_problem("/schema_version/minor", 1), {"order_seed"});
  expect_contains(first_problem("/cases/0/verdict", "SLOWER"), {id + "verdict"});
  expect_contains(first_problem("/cases/0/look/change_percent", 99), {id + "look.change_percent"});
  EXPECT_NE(first_problem("/cases/0/launches/0/pairs/0/new_ns", 1), "");
  EXPECT_THROW(first_problem("/cases/0/status", "fine"), UsageError);
  expect_contains(first_problem("/cases/0/batch", 31), {id, "/b31/"});
  expect_contains(first_problem("/cases/1/id", good["cases"][0]["id"]), {id});
  EXPECT_TRUE(first_problem("/gate", "passed").starts_with("gate ")) << first_problem("/gate", "passed");
  expect_contains(first_problem("/id", "mine"), {"'mine'"});
  expect_contains(first_problem("/env", Json::object()), {"report.env.fingerprint"});
  EXPECT_THROW(first_problem("/schema_version/major", 2), UsageError);
  EXPECT_THROW(first_problem("/cases/0/launches/0/pairs/0/base_ns", 0), UsageError);
}

TEST(Validate, RefusesUnknownNamesOfStatusDeviceScalingOrDtype) {
  for (const char* pointer : {"/status", "/cases/1/status", "/cases/1/device", "/cases/1/scaling", "/cases/1/dtype",
                              "/cases/1/checks/0/status", "/cases/1/stats/step_time_ns/interval"}) {
    Json document = to_json(full_report());
    document[Json::json_pointer(pointer)] = "fine";
    EXPECT_THROW(dpbench::problems_of(document), UsageError) << pointer;
  }
}

TEST(Validate, RefusesDocumentsThatAreNoReport) { EXPECT_THROW(dpbench::problems_of(Json::array()), UsageError); }

}  // namespace
}  // namespace dpbench
