#include "harness/report/validate/validate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "harness/report/record/find_run.h"
#include "harness/report/validate/duel_validate.h"
#include "tests/unit/report/sample_reports.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using namespace test;

using Texts = std::vector<std::string>;

// As read from what was written.
Texts problems_of(const Report& report) { return dpbench::problems_of(parse_json(to_json(report).dump(), "text")); }

const std::string ddp = "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32/bucket_mb=1: ";

TEST(Validate, FindsNothingInAGoodReport) { EXPECT_EQ(problems_of(full_report()), Texts{}); }

TEST(Validate, FindsNothingInTheReportsThatAreKept) {
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

// One change to the measured case with two ranks, and the first thing that is said of it.
struct Forgery {
  void (*change)(CaseRecord&);
  const char* said;
};

Texts said_of(void (*change)(CaseRecord&)) {
  Report report = full_report();
  change(report.cases[1]);
  return problems_of(report);
}

const std::vector<Forgery> forgeries = {
    {[](CaseRecord& c) {
       c.step_time_ns->median *= 0.9;
       *c.step_time_ns->ci95_low *= 0.9;
     },
     "stats.step_time_ns.median does not match the measurements"},
    {[](CaseRecord& c) { c.step_time_ns->mad += 1; }, "stats.step_time_ns.mad does not match the measurements"},
    {[](CaseRecord& c) { c.step_time_ns->p99 -= 1; }, "stats.step_time_ns.p99 does not match the measurements"},
    {[](CaseRecord& c) { c.step_time_ns->n = 8; }, "stats.step_time_ns.n does not match the measurements"},
    {[](CaseRecord& c) { c.step_time_ns->interval = IntervalOver::samples; },
     "stats.step_time_ns.interval does not match the measurements"},
    {[](CaseRecord& c) {
       std::swap(c.step_time_ns->ci95_low, c.step_time_ns->ci95_high), *c.step_time_ns->ci95_low += 1;
     },
     "stats.step_time_ns: the interval does not contain the median"},
    {[](CaseRecord& c) { c.derived.speedup = 2; }, "derived.speedup does not match the measurements"},
    {[](CaseRecord& c) { c.derived.efficiency.reset(); }, "derived.efficiency does not match the measurements"},
    {[](CaseRecord& c) { c.derived.gpu_power_w = 1; }, "derived.gpu_power_w does not match the measurements"},
    {[](CaseRecord& c) { c.derived.straggler = 1; }, "derived.straggler does not match the measurements"},
    {[](CaseRecord& c) { c.derived.flop_share = 1; }, "derived.flop_share does not match the measurements"},
    {[](CaseRecord& c) { c.checks[0].status = CheckStatus::failed; }, "status is ok but its checks make it wrong"},
    {[](CaseRecord& c) { c.checks[0].error = 0.5; }, "check output-shape passed with an error above its bound"},
    {[](CaseRecord& c) { c.status = CaseStatus::wrong, c.reason = "x"; }, "status is wrong, but no check failed"},
    {[](CaseRecord& c) { c.status = CaseStatus::failed; }, "status is failed, but there is no reason"},
    {[](CaseRecord& c) { c.launches[2].ranks.pop_back(); }, "launch 2 does not contain exactly ranks 0 to 1"},
    {[](CaseRecord& c) { c.launches[2].ranks[1].rank = 0; }, "launch 2 contains a rank twice"},
    {[](CaseRecord& c) { c.launches[2].index = 0; }, "launch 0 appears twice"},
    {[](CaseRecord& c) { c.launches[2].index = -1; }, "launches[2].index is -1, not at least 0"},
    {[](CaseRecord& c) { c.launches.pop_back(); }, "2 launches, not the 3 of the configuration"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].samples_ns.pop_back(); },
     "launch 0: rank 1 differs in samples or steps_per_sample from rank 0"},
    {[](CaseRecord& c) {
       for (auto& rank : c.launches[0].ranks) rank.samples_ns.push_back(12500);
     },
     "launch 0: rank 0 has more samples than the 3 of the configuration"},
    {[](CaseRecord& c) {
       for (auto& rank : c.launches[0].ranks) rank.steps_per_sample = 11;
     },
     "launch 0: rank 0 has steps_per_sample other than the 10 of the configuration"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].step_p90_ns = 1500; },
     "launch 0: rank 1's percentiles of single steps are not ascending"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].peak_rss_bytes = -1; },
     "launches[0].ranks[1].peak_rss_bytes is -1, not at least 0"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].own_rss_bytes = (1 << 28) + 1; },
     "launch 0: rank 1 has own_rss_bytes above peak_rss_bytes"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].phases_ns["forward"] = -1; }, "launch 0: rank 1's forward is below 0"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->waiting_ns = -1; },
     "launches[0].ranks[1].profile.waiting_ns is -1.0, not at least 0"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->hidden_ns = 101; },
     "launch 0: rank 1's communication_ns is not the sum of exposed_ns and hidden_ns"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].bytes = -1; },
     "launches[0].ranks[1].profile.collectives[0].bytes is -1, not at least 0"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].start_ns = -1e300; },
     "launch 0: rank 1 has a collective (allreduce) with impossible times"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].end_ns = 499; },
     "launch 0: rank 1 has a collective (allreduce) with impossible times"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->collectives[0].end_ns.reset(); },
     "launch 0: rank 1 has a collective (allreduce) with impossible times"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].profile->steps = 0; },
     "launches[0].ranks[1].profile.steps is 0, not at least 1"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].peak->triad_bytes_per_s = 0; },
     "launches[0].ranks[1].peak.triad_bytes_per_s is 0.0, not above 0"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].gpus[0].throttled_readings = 4; },
     "launch 0: rank 1's GPU 00000000:1B:00.0 has inconsistent throttling counters"},
    {[](CaseRecord& c) { c.launches[0].ranks[1].parameters_hash = "other"; },
     "status is ok but its checks make it wrong"},
    {[](CaseRecord& c) { c.spec.processes = 3; }, "3 processes do not fit world 2"},
    {[](CaseRecord& c) { c.spec.threads = 0; }, "threads is 0, not at least 1"},
    {[](CaseRecord& c) { c.spec.clip_norm = 0; }, "clip_norm is 0.0, not above 0"},
    {[](CaseRecord& c) { c.spec.seed = 2; }, "the seed differs from the configuration"},
    {[](CaseRecord& c) { c.spec.batch = 32; },
     "the id does not match the fields, which make ddp/mnist-mlp/cpu:2/shm/weak/b32/f32/bucket_mb=1"},
};

TEST(Validate, FindsWhatCannotBe) {
  for (const auto& [change, said] : forgeries) {
    const Texts problems = said_of(change);
    const bool found =
        std::find(problems.begin(), problems.end(), ddp + said) != problems.end() ||
        std::find(problems.begin(), problems.end(), "report.cases[1]." + std::string(said)) != problems.end();
    EXPECT_TRUE(found) << said << "\n  but: " << (problems.empty() ? "nothing" : problems.front());
  }
}

TEST(Validate, FindsAnIdThatStandsThereTwice) {
  Report report = full_report();
  report.cases[1].spec.id = report.cases[0].spec.id;
  EXPECT_EQ(problems_of(report).at(0), report.cases[0].spec.id + ": the id appears twice");
}

TEST(Validate, FindsARunWithoutARunsName) {
  Report report = full_report();
  report.id = "mine";
  EXPECT_EQ(problems_of(report), (Texts{"the id 'mine' is not of the form <UTC time>-<commit>-<machine>"}));
}

TEST(Validate, FindsAMachineThatCannotBe) {
  Report report = full_report();
  report.env["cpu"]["usable"] = "two";
  report.env["gpus"][0].erase("name");
  report.env.erase("limits");
  EXPECT_EQ(problems_of(report), (Texts{"report.env.limits is missing", "report.env.cpu.usable is \"two\", not integer",
                                        "report.env.gpus[0].name is missing"}));
}

TEST(Validate, FindsWhatTheConfigurationDidNotAskFor) {
  Report report = full_report();
  report.config["strategies"] = {"cpu", "dp", "gpu"};
  report.config["workloads"] = {"mnist-mlp"};
  const Texts problems = problems_of(report);
  ASSERT_EQ(problems.size(), 3u) << "each of ddp's cases";
  EXPECT_EQ(problems[0], ddp + "the configuration asks for no strategy ddp");
}

TEST(Validate, ACompleteRunHasNoInterruptedCase) {
  Report report = full_report();
  report.status = RunStatus::complete;
  ASSERT_EQ(problems_of(report).size(), 1u);
  EXPECT_NE(problems_of(report)[0].find("interrupted in a complete run"), std::string::npos);
}

TEST(Validate, FindsPhasesThatAreNotTheMeanOfTheRanks) {
  Json document = to_json(full_report());
  document["cases"][1]["phases"]["mean_step_ns"]["forward"] = 699;
  EXPECT_EQ(dpbench::problems_of(document),
            (Texts{ddp + "phases.mean_step_ns.forward does not match the measurements"}));
}

TEST(Validate, AnOlderReportMayLackFiguresOfLaterMinorVersions) {
  Json document = to_json(full_report());
  document["cases"][1]["derived"].erase("gpu_power_w");
  EXPECT_EQ(dpbench::problems_of(document).size(), 1u);
  document["schema_version"]["minor"] = 2;
  EXPECT_EQ(dpbench::problems_of(document), Texts{});
}

TEST(ValidateDuel, FindsWhatDoesNotFollowFromThePairs) {
  const Json good = read_document(fs::path(DPBENCH_SOURCE) / "tests/golden/duel-1.0.json");
  const auto said = [&](const char* pointer, const Json& value) {
    Json forged = good;
    forged[Json::json_pointer(pointer)] = value;
    const Texts problems = duel_problems_of(forged);
    return problems.empty() ? "" : problems.front();
  };
  const std::string id = good["cases"][0]["id"].get<std::string>() + ": ";
  EXPECT_EQ(duel_problems_of(good), Texts{});
  EXPECT_EQ(said("/schema_version/minor", 1), "order_seed is missing or below 1");
  EXPECT_EQ(said("/cases/0/verdict", "SLOWER"), id + "verdict does not match the measurements");
  EXPECT_EQ(said("/cases/0/look/change_percent", 99), id + "look.change_percent does not match the measurements");
  EXPECT_NE(said("/cases/0/launches/0/pairs/0/new_ns", 1), "");
  EXPECT_THROW(said("/cases/0/status", "fine"), UsageError);
  EXPECT_EQ(said("/cases/0/batch", 31).substr(0, id.size() + 7), id + "the id ");
  EXPECT_EQ(said("/cases/1/id", good["cases"][0]["id"]).substr(0, id.size()), id);
  EXPECT_EQ(said("/gate", "passed"), "gate does not match the verdicts");
  EXPECT_EQ(said("/id", "mine"), "the id 'mine' is not of the form <UTC time>-<commit>-<machine>");
  EXPECT_EQ(said("/env", Json::object()), "report.env.fingerprint is missing");
  EXPECT_THROW(said("/schema_version/major", 2), UsageError);
  EXPECT_THROW(said("/cases/0/launches/0/pairs/0/base_ns", 0), UsageError);
}

TEST(Validate, RefusesAWordThatNamesNothing) {
  for (const char* pointer : {"/status", "/cases/1/status", "/cases/1/device", "/cases/1/scaling", "/cases/1/dtype",
                              "/cases/1/checks/0/status", "/cases/1/stats/step_time_ns/interval"}) {
    Json document = to_json(full_report());
    document[Json::json_pointer(pointer)] = "fine";
    EXPECT_THROW(dpbench::problems_of(document), UsageError) << pointer;
  }
}

TEST(Validate, WhatIsNoReportIsRefused) { EXPECT_THROW(dpbench::problems_of(Json::array()), UsageError); }

}  // namespace
}  // namespace dpbench
