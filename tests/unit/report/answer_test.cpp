// Tests the answer of a run (a text that ranks the strategies) on hand-made runs: which cases are ranked, which
// differences are reported, and the values in the sentence of each rule.
#include "harness/report/answer/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "harness/report/answer/answer_output.h"
#include "harness/report/answer/members.h"
#include "harness/report/answer/rules.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

constexpr int64_t mib = 1 << 20;

// Returns a case that passed its checks and is `speedup` times as fast as a device with 1 ms per step. `half` is half
// the width of the speed-up's confidence interval.
CaseRecord timed(const std::string& strategy, int world, double speedup, double half, int launches = 5) {
  CaseRecord record;
  record.spec.strategy = strategy, record.spec.workload = "toy", record.spec.world = world;
  record.spec.baseline = strategy == "cpu";
  record.spec.processes = strategy == "dp" ? 1 : world;
  record.spec.backend = world > 1 && strategy != "dp" ? "shm" : no_backend;
  record.spec.id = case_id(record.spec);
  record.status = CaseStatus::ok;
  record.means = batch_mean;
  record.checks.push_back({.name = "gradient-vs-baseline", .status = CheckStatus::passed});
  const double ns = 1e6 * world / speedup;
  record.step_time_ns = {.median = ns,
                         .ci95_low = ns * 0.99,
                         .ci95_high = ns * 1.01,
                         .interval = IntervalOver::launches,
                         .n = 50,
                         .launches = launches};
  record.derived.samples_per_s = 64 * world / (ns * 1e-9);
  record.derived.noise = 0.01;
  if (record.spec.baseline) {
    record.derived.speedup = record.derived.efficiency = 1;
    return record;
  }
  Derived& d = record.derived;
  d.speedup = speedup, d.speedup_low = speedup - half, d.speedup_high = speedup + half;
  d.efficiency = speedup / world, d.efficiency_low = *d.speedup_low / world,
  d.efficiency_high = *d.speedup_high / world;
  return record;
}

// Adds a launch with these phase times and one profiled collective. Sets the derived communication time and overlap.
CaseRecord with_parts(CaseRecord record, const std::map<std::string, double>& phases, double overlap = 0,
                      const std::string& op = "allreduce") {
  RankRecord rank;
  rank.phases_ns = phases;
  rank.profile = {.steps = 1,
                  .step_ns = 1,
                  .collectives = {{.op = op, .phase = "communication", .bytes = 4, .start_ns = 0, .end_ns = 100}}};
  record.launches.push_back({.index = 0, .ranks = {rank}});
  record.derived.communication_ns = 100, record.derived.overlap = overlap;
  return record;
}

// Adds five launches, each with a rank that uses this much memory, and sets the derived peak memory.
CaseRecord with_memory(CaseRecord record, int64_t megabytes) {
  for (int i = 0; i < 5; ++i) {
    RankRecord rank;
    rank.own_rss_bytes = megabytes * mib;
    record.launches.push_back({.index = i, .ranks = {rank}});
  }
  record.derived.peak_memory_bytes = megabytes * mib;
  return record;
}

Report run_of(std::vector<CaseRecord> cases) {
  Report report;
  report.status = RunStatus::complete;
  report.cases.push_back(timed("cpu", 1, 1, 0));
  for (CaseRecord& one : cases) report.cases.push_back(std::move(one));
  return report;
}

// Removes the baseline, with which the blocks of all other cases were paired.
Report without_baseline(Report report) {
  report.cases.erase(report.cases.begin());
  return report;
}

CaseRecord with_status(CaseStatus status) {
  CaseRecord record = timed("zero1", 2, 1.5, 0.01);
  record.status = status, record.reason = "its reason", record.step_time_ns.reset();
  return record;
}

template <class Change>
CaseRecord changed(CaseRecord record, Change change) {
  change(record);
  record.spec.id = case_id(record.spec);
  return record;
}

const AnswerGroup& group_of_world(const Answer& answer, int world) {
  const auto found = std::find_if(answer.groups.begin(), answer.groups.end(),
                                  [&](const AnswerGroup& group) { return group.world == world; });
  if (found == answer.groups.end()) throw std::runtime_error("no such group");
  return *found;
}

std::vector<std::string> texts_by(const Answer& answer, const std::string& rule) {
  std::vector<std::string> texts;
  const auto add = [&](const std::vector<Sentence>& sentences) {
    for (const Sentence& one : sentences)
      if (one.rule == rule) texts.push_back(one.text);
  };
  for (const AnswerGroup& group : answer.groups)
    if (group.world > 1) add(group.sentences);
  add(answer.sentences);
  return texts;
}

TEST(Quotient, OfTwoMeasurementsHasAnIntervalAboveOneOnlyIfTheirIntervalsAreDisjoint) {
  const Estimate ratio = quotient({2, 1.8, 2.2}, {1, 0.9, 1.1});
  EXPECT_DOUBLE_EQ(ratio.middle, 2);
  EXPECT_DOUBLE_EQ(ratio.low, 1.8 / 1.1);
  EXPECT_DOUBLE_EQ(ratio.high, 2.2 / 0.9);
  EXPECT_TRUE(above({2, 1.8, 2.2}, {1.5, 1.4, 1.7}));
  EXPECT_FALSE(above({2, 1.8, 2.2}, {1.5, 1.4, 1.8}));
}

TEST(Answer, RanksCasesOnlyIfTheirIntervalsDoNotOverlap) {
  const Answer answer =
      answer_of(run_of({timed("dp", 2, 1.66, 0.05), timed("ddp", 2, 1.68, 0.05), timed("zero1", 2, 1.5, 0.02)}));
  const auto& choices = group_of_world(answer, 2).choices;
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].label, "ddp");
  EXPECT_EQ(choices[0].time, Standing::tied);
  EXPECT_EQ(choices[1].time, Standing::tied);
  EXPECT_EQ(choices[2].time, Standing::behind);
  EXPECT_NEAR(*choices[2].time_ratio, 1.12, 1e-9);
  EXPECT_NEAR(*choices[2].time_low, 1.63 / 1.52, 1e-9);
  EXPECT_NEAR(*choices[2].time_high, 1.73 / 1.48, 1e-9);
}

TEST(Answer, ParetoFrontHoldsCasesThatNoOtherBeatsInBothTimeAndMemory) {
  const Answer answer =
      answer_of(run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 400), with_memory(timed("fsdp", 2, 1.6, 0.01), 100),
                        with_memory(timed("zero1", 2, 1.5, 0.01), 200), timed("zero2", 2, 1.4, 0.01)}));
  const auto& choices = group_of_world(answer, 2).choices;
  EXPECT_TRUE(choices[0].on_front);
  EXPECT_TRUE(choices[1].on_front) << "it needs the least memory";
  EXPECT_FALSE(choices[2].on_front) << "fsdp beats it in both";
  EXPECT_TRUE(choices[3].on_front) << "its memory is unknown, so it may be the smallest";
  EXPECT_EQ(choices[1].memory, Standing::best);
  EXPECT_EQ(choices[0].memory, Standing::behind);
  EXPECT_EQ(choices[3].memory, Standing::undecided);
  EXPECT_NEAR(*choices[1].memory_ratio, 0.25, 1e-9);
}

TEST(Answer, MemoryOfAProcessWithAllReplicasIsNotComparedWithThatOfARank) {
  const Answer answer =
      answer_of(run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 400), with_memory(timed("dp", 2, 1.6, 0.01), 100)}));
  for (const Choice& choice : group_of_world(answer, 2).choices) EXPECT_EQ(choice.memory, Standing::undecided);
}

TEST(Answer, SplitsTheLossOfEfficiencyIntoSharesOfItsCausesThatAddUpToOne) {
  const Answer answer = answer_of(run_of({with_parts(
      timed("ddp", 2, 1.6, 0.01), {{"forward", 80}, {"backward", 5}, {"communication", 10}, {"waiting", 5}})}));
  const Choice& choice = group_of_world(answer, 2).choices[0];
  EXPECT_NEAR(*choice.loss, 0.2, 1e-12);
  EXPECT_NEAR(choice.loss_parts.at("communication"), 0.5, 1e-12);
  EXPECT_NEAR(choice.loss_parts.at("waiting"), 0.25, 1e-12);
  EXPECT_NEAR(choice.loss_parts.at("computation"), 0.25, 1e-12);
}

// Two cases can be ranked. Each change to one of the cases makes the two incomparable.
TEST(Answer, RanksNoCasesThatDifferInASettingInStatusOrInWhatTheirGradientsMean) {
  const std::vector<std::pair<const char*, std::function<void(CaseRecord&)>>> changes = {
      {"workload", [](CaseRecord& r) { r.spec.workload = "other"; }},
      {"model", [](CaseRecord& r) { r.spec.model = "large"; }},
      {"device", [](CaseRecord& r) { r.spec.device = Device::cuda; }},
      {"world", [](CaseRecord& r) { r.spec.world = 4; }},
      {"scaling", [](CaseRecord& r) { r.spec.scaling = Scaling::strong; }},
      {"batch", [](CaseRecord& r) { r.spec.batch = 32; }},
      {"dtype", [](CaseRecord& r) { r.spec.dtype = Dtype::f64; }},
      {"runtime", [](CaseRecord& r) { r.spec.runtime = Runtime::fast; }},
      {"scale", [](CaseRecord& r) { r.spec.scale = 2; }},
      {"accumulate", [](CaseRecord& r) { r.spec.accumulate = 2; }},
      {"recompute", [](CaseRecord& r) { r.spec.recompute = 2; }},
      {"clip_norm", [](CaseRecord& r) { r.spec.clip_norm = 1; }},
      {"data_dir", [](CaseRecord& r) { r.spec.data_dir = "/data"; }},
      {"threads", [](CaseRecord& r) { r.spec.threads = 2; }},
      {"oversubscribe", [](CaseRecord& r) { r.spec.oversubscribe = true; }},
      {"global batch of a mesh", [](CaseRecord& r) { r.spec.mesh = "dp=1,tp=2"; }},
      {"mathematics", [](CaseRecord& r) { r.means = "local steps"; }},
      {"unknown mathematics", [](CaseRecord& r) { r.means = "", r.checks[0].status = CheckStatus::skipped; }},
      {"checks", [](CaseRecord& r) { r.checks.clear(); }},
      {"status", [](CaseRecord& r) { r.status = CaseStatus::disturbed; }},
  };
  for (const auto& [what, change] : changes) {
    const Answer answer =
        answer_of(run_of({timed("ddp", 2, 1.7, 0.01), changed(timed("zero1", 2, 1.5, 0.01), change)}));
    for (const AnswerGroup& group : answer.groups) EXPECT_EQ(group.choices.size(), 1u) << what;
    EXPECT_FALSE(compares_any(answer)) << what;
  }
  EXPECT_TRUE(compares_any(answer_of(run_of({timed("ddp", 2, 1.7, 0.01), timed("zero1", 2, 1.5, 0.01)}))));
}

TEST(Answer, RanksCasesOfOldReportsThatLackTheFieldMeans) {
  const auto no_means = [](CaseRecord& record) { record.means.clear(); };
  const Answer answer = answer_of(
      run_of({changed(timed("ddp", 2, 1.7, 0.01), no_means), changed(timed("zero1", 2, 1.5, 0.01), no_means)}));
  EXPECT_EQ(group_of_world(answer, 2).choices.size(), 2u);
}

TEST(Answer, WithoutPairedBlocksOnlyIntervalsOverLaunchesDecideTheRanking) {
  const auto without_pairs = [](CaseRecord& record) {
    record.derived.speedup_low.reset(), record.derived.speedup_high.reset();
  };
  std::vector<CaseRecord> cases = {changed(timed("ddp", 2, 1.7, 0.01), without_pairs),
                                   changed(timed("zero1", 2, 1.5, 0.01), without_pairs)};
  EXPECT_EQ(group_of_world(answer_of(run_of(cases)), 2).choices[0].time, Standing::best);
  for (CaseRecord& record : cases)
    record.step_time_ns->interval = IntervalOver::samples, record.step_time_ns->launches = 1;
  EXPECT_EQ(group_of_world(answer_of(run_of(cases)), 2).choices[0].time, Standing::undecided);
  EXPECT_EQ(group_of_world(answer_of(run_of(cases)), 2).decide, "--launches 5");
}

TEST(Answer, PairedBlocksRankCasesWithTheSameReferenceEvenIfIntervalsOverLaunchesOverlap) {
  const auto over = [](const std::string& backend, CaseRecord record) {
    record.step_time_ns->ci95_low = 0.7 * record.step_time_ns->median;
    record.step_time_ns->ci95_high = 1.3 * record.step_time_ns->median;
    return changed(record, [&](CaseRecord& one) { one.spec.backend = backend; });
  };
  const auto over_ddp = [](double speedup, CaseRecord record) {
    Derived& d = record.derived;
    d.speedup = speedup, d.speedup_low = speedup - 0.05, d.speedup_high = speedup + 0.05;
    return record;
  };
  Report run = run_of({over("shm", timed("ddp", 2, 1.6, 0)), over("gloo", timed("ddp", 2, 1.4, 0)),
                       over_ddp(0.8, over("shm", timed("fsdp", 2, 1.28, 0))),
                       over_ddp(0.9, over("gloo", timed("fsdp", 2, 1.26, 0)))});
  run.config["reference"] = "ddp";
  const auto& choices = group_of_world(answer_of(run), 2).choices;
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0].label, "ddp over shm");
  EXPECT_EQ(choices[0].time, Standing::tied) << "ddp over gloo has another reference";
  EXPECT_EQ(choices[1].label, "ddp over gloo");
  EXPECT_EQ(choices[1].time, Standing::tied);
  EXPECT_EQ(choices[2].label, "fsdp over shm");
  EXPECT_EQ(choices[2].time, Standing::behind);
  EXPECT_NEAR(*choices[2].time_low, 1 / 0.85, 1e-9);
  EXPECT_NEAR(*choices[2].time_high, 1 / 0.75, 1e-9);
  EXPECT_EQ(choices[3].time, Standing::behind) << "ddp over gloo is faster";
  EXPECT_LT(*choices[3].time_low, 1) << "against ddp over shm, only the intervals over launches count";
}

TEST(Answer, StartsWithACaseThatNoOtherIsFasterThanEvenIfAnotherHasMoreSamplesPerSecond) {
  const auto paired = [](CaseRecord record) {
    Derived& d = record.derived;
    d.speedup = 0.8, d.speedup_low = 0.75, d.speedup_high = 0.85;
    return record;
  };
  const auto over_gloo = [](CaseRecord& record) { record.spec.backend = "gloo"; };
  Report run = run_of(
      {timed("ddp", 2, 1.5, 0), paired(timed("zero1", 2, 1.52, 0)), changed(timed("ddp", 2, 1.2, 0), over_gloo)});
  run.config["reference"] = "ddp";
  const auto& choices = group_of_world(answer_of(run), 2).choices;
  EXPECT_EQ(choices[0].label, "ddp over shm");
  EXPECT_EQ(choices[0].time, Standing::best);
  EXPECT_EQ(choices[1].label, "zero1");
  EXPECT_EQ(choices[1].time, Standing::behind);
}

TEST(Answer, LabelsHaveBackendAndParametersOnlyIfCasesOfAStrategyDifferInThem) {
  const auto over_gloo = [](CaseRecord& record) { record.spec.backend = "gloo"; };
  const auto buckets = [](CaseRecord& record) { record.spec.params = {{"bucket_mb", "1"}}; };
  const Answer answer = answer_of(run_of({timed("ddp", 2, 1.7, 0.01), changed(timed("ddp", 2, 1.6, 0.01), over_gloo),
                                          changed(timed("ddp", 2, 1.5, 0.01), buckets)}));
  const auto& choices = group_of_world(answer, 2).choices;
  EXPECT_TRUE(mentions_in_order(choices[0].label, {"ddp", "shm"}));
  EXPECT_TRUE(mentions_in_order(choices[1].label, {"ddp", "gloo"}));
  EXPECT_TRUE(mentions_in_order(choices[2].label, {"ddp", "bucket_mb=1", "shm"}));
  for (const size_t i : {0u, 1u}) EXPECT_EQ(choices[i].label.find("bucket_mb"), std::string::npos) << choices[i].label;
}

TEST(Answer, ComparesOnlyCasesWithEqualSamplesPerStepAndStatesThemInTheHeading) {
  const auto sharing_samples = [](CaseRecord& record) { record.spec.mesh = "tp=2"; };
  const Answer answer = answer_of(run_of({timed("ddp", 2, 1.7, 0.01), timed("dp", 2, 1.6, 0.01),
                                          changed(timed("tp", 2, 1.5, 0.01), sharing_samples),
                                          changed(timed("pp", 2, 1.4, 0.01), sharing_samples)}));
  const auto setting_with = [&](const std::string& label) {
    for (const AnswerGroup& group : answer.groups)
      for (const Choice& choice : group.choices)
        if (choice.label.starts_with(label)) return group.setting;
    return std::string();
  };
  const std::string plain = setting_with("cpu");
  EXPECT_EQ(plain.find("per step"), std::string::npos) << plain;
  EXPECT_TRUE(setting_with("ddp").starts_with(plain + " · 128 samples")) << setting_with("ddp");
  EXPECT_TRUE(setting_with("tp").starts_with(plain + " · 64 samples")) << setting_with("tp");
}

// dp is fastest but noisy, so only ddp is reported as faster than zero1.
TEST(Answer, StatesASlowdownOnlyAgainstACaseThatIsReliablyFaster) {
  const Answer answer =
      answer_of(run_of({timed("dp", 2, 1.7, 0.3), timed("ddp", 2, 1.65, 0.02), timed("zero1", 2, 1.5, 0.02)}));
  const auto texts = texts_by(answer, "slower");
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(mentions_in_order(texts[0], {"zero1", "10 %", "7 to 13 %", "ddp"}));
}

TEST(Answer, SuggestsTheNumberOfLaunchesThatWouldDecideATie) {
  // The ratio ddp / dp is 1.05, with an interval from 0.99 to 1.11. Half its logarithmic width is 1.175 log(1.05), so
  // 5 x 1.175^2 launches, rounded up, would exclude 1.
  const Answer answer = answer_of(run_of({timed("ddp", 2, 1.68, 0.048), timed("dp", 2, 1.6, 0.046)}));
  EXPECT_EQ(group_of_world(answer, 2).decide, "--launches 7");
  const Answer hopeless = answer_of(run_of({timed("ddp", 2, 1.601, 0.1), timed("dp", 2, 1.6, 0.1)}));
  EXPECT_EQ(group_of_world(hopeless, 2).decide, "");
}

struct RuleCase {
  const char* rule;
  Report report;
  // names and values that the rule's first sentence must contain in the order of this list
  std::vector<std::string_view> parts;
};

std::vector<RuleCase> rule_cases() {
  const auto by_shares = [](CaseRecord record, double communication, double waiting, double overlap = 0,
                            const char* op = "allgather") {
    return with_parts(
        std::move(record),
        {{"forward", 100 - communication - waiting}, {"communication", communication}, {"waiting", waiting}}, overlap,
        op);
  };
  const CaseRecord fast = by_shares(timed("ddp", 2, 1.8, 0.01), 4, 1), slow = timed("zero1", 2, 1.6, 0.01);
  const auto slower_than_fast = [&](const CaseRecord& record) { return run_of({fast, record}); };
  const auto noisy = [](CaseRecord& record) { record.derived.noise = 0.17; };
  const auto one_launch = [](CaseRecord& record) { record.step_time_ns->launches = 1; };
  const auto unpaired = [](CaseRecord& record) {
    record.derived.speedup_low.reset();
    record.step_time_ns->interval = IntervalOver::samples, record.step_time_ns->launches = 1;
  };
  Report crowded =
      run_of({changed(timed("ddp", 4, 1.6, 0.01), [](CaseRecord& record) { record.derived.efficiency = 0.4; })});
  crowded.env = {{"cpu", {{"usable", 2}}}};
  Report busy = run_of({fast});
  constexpr std::string_view busy_text = "other programs took 1.0 of 2 cores in 1 of 3 cases";
  busy.disturbance = busy_text;
  // Collectives on a GPU have no times, so the parts of a step with collectives are unknown there.
  const auto on_gpu = [](CaseRecord record, std::map<std::string, double> phases) {
    record.spec.device = Device::cuda, record.spec.id = case_id(record.spec);
    record.launches.push_back({.index = 0, .ranks = {{.phases_ns = std::move(phases)}}});
    return record;
  };
  const std::map<std::string, double> eager = {{"forward", 40}, {"backward", 60}};
  const auto gpus = [&](const CaseRecord& faster, const CaseRecord& slower) {
    Report run = run_of({faster, slower});
    run.cases[0] = on_gpu(changed(timed("gpu", 1, 1, 0), [](CaseRecord& one) { one.spec.baseline = true; }), eager);
    run.cases[0].derived.speedup = run.cases[0].derived.efficiency = 1;
    run.cases[0].derived.speedup_low.reset(), run.cases[0].derived.speedup_high.reset();
    return run;
  };
  const CaseRecord fast_gpu = on_gpu(timed("ddp", 2, 1.8, 0.01), eager),
                   slow_gpu = on_gpu(timed("zero1", 2, 1.6, 0.01), eager);
  const auto with_graph = [](CaseRecord& record) { record.spec.params = {{"graph", "on"}}; };
  constexpr std::string_view left_out = "zero1/toy/cpu:2/shm/weak/b64/f32";
  return {
      {"alone", run_of({timed("ddp", 2, 1.66, 0.05)}), {"ddp", "1.66x (1.61 to 1.71)", "one device", "world of 2"}},
      {"undecided",
       run_of({changed(timed("ddp", 2, 1.7, 0.01), unpaired), changed(slow, unpaired)}),
       {"1 launch", "2 cases"}},
      {"fastest",
       run_of({timed("ddp", 2, 1.68, 0.05), timed("zero1", 2, 1.5, 0.02)}),
       {"ddp", "fastest", "1.68x (1.63 to 1.73)", "one device", "world of 2", "zero1", "12 %", "7 to 17 %"}},
      {"tied",
       run_of({timed("ddp", 2, 1.66, 0.05), timed("dp", 2, 1.68, 0.05)}),
       {"dp", "1.68x (1.63 to 1.73)", "one device", "world of 2", "ddp", "1.66x (1.61 to 1.71)", " 7 %"}},
      {"below-one-device", run_of({timed("ddp", 2, 0.5, 0.01), timed("zero1", 2, 0.4, 0.01)}), {"one device"}},
      {"less-memory",
       run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 400), with_memory(timed("fsdp", 2, 1.6, 0.01), 164)}),
       {"fsdp", "41 %", " ddp", "40 to 42 %", "12 %", "11 to 14 %"}},
      {"least-memory",
       run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 100), with_memory(timed("fsdp", 2, 1.6, 0.01), 164)}),
       {"ddp"}},
      {"tied-memory",
       run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 100), with_memory(timed("fsdp", 2, 1.6, 0.01), 101)}),
       {" ddp"}},
      {"slower", run_of({timed("ddp", 2, 1.8, 0.01), slow, timed("dp", 2, 0.6, 0.01)}), {"dp", "3.0x", "2.9 to 3.1x"}},
      {"loss",
       run_of({by_shares(timed("ddp", 2, 1.6, 0.01), 8, 2)}),
       {"ddp", "20 %", "40 %", "communication", "10 %", "waiting", "50 %", "computation"}},
      {"no-loss", run_of({timed("ddp", 2, 1.99, 0.05)}), {"ddp"}},
      {"ceiling", crowded, {"4 replicas", "2 cores", "2.00x", "ddp", "80 %"}},
      {"front",
       run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 400), with_memory(timed("fsdp", 2, 1.6, 0.01), 164)}),
       {"ddp and fsdp"}},
      {"few-launches", run_of({changed(timed("ddp", 2, 1.8, 0.01), one_launch), slow}), {"1 launch"}},
      {"noisy", run_of({changed(timed("ddp", 2, 1.8, 0.01), noisy), slow}), {"ddp", "17 %"}},
      {"decide", run_of({changed(timed("ddp", 2, 1.8, 0.01), noisy), slow}), {"--max-noise 5"}},
      // rules that explain why one case is slower than another
      {"straggler",
       slower_than_fast(changed(slow, [](CaseRecord& record) { record.derived.straggler = 3; })),
       {"zero1", "rank 3"}},
      {"throttled",
       gpus(fast_gpu, changed(slow_gpu, [](CaseRecord& record) { record.derived.throttled_share = 0.4; })),
       {"zero1", "throttled", "40 %", "0.0 %"}},
      {"no-graph",
       gpus(on_gpu(changed(timed("ddp", 2, 1.8, 0.01), with_graph), {{"graph", 100}}),
            on_gpu(timed("ddp", 2, 1.6, 0.01), eager)),
       {"ddp graph=on is fastest", "launches each operation", "ddp graph=on", "replays"}},
      {"exposed-copies",
       gpus(on_gpu(changed(timed("dp", 2, 1.8, 0.01), with_graph), eager),
            on_gpu(timed("dp", 2, 1.6, 0.01), {{"forward", 80}, {"scatter", 20}})),
       {"dp", "copying between its devices", "20 %", "0.0 %"}},
      {"untimed-on-gpu", gpus(fast_gpu, slow_gpu), {"zero1", "12 %", "on a GPU", "--trace"}},
      {"exposed-operation", slower_than_fast(by_shares(slow, 14, 1)), {"zero1", "12 %", "11 to 14 %", "allgather"}},
      {"exposed-communication",
       slower_than_fast(by_shares(slow, 14, 1, 0.5)),
       {"zero1", "12 %", "11 to 14 %", "communication", "14 %", " 4 %"}},
      {"waiting",
       slower_than_fast(by_shares(slow, 4, 12)),
       {"zero1", "12 %", "11 to 14 %", "waiting", "12 %", "1.0 %"}},
      {"computation", slower_than_fast(by_shares(slow, 4, 1)), {"zero1", "12 %", "11 to 14 %", "computation"}},
      {"several-parts",
       slower_than_fast(by_shares(slow, 7.6, 4.4)),
       {"zero1", "12 %", "11 to 14 %", "36 %", "communication", "32 %", "computation", "32 %", "waiting"}},
      {"no-parts", slower_than_fast(slow), {"zero1", "12 %", "11 to 14 %"}},
      // rules about the whole run
      {"nothing-compares", run_of({fast}), {}},
      {"busy", busy, {busy_text}},
      {"wrong", run_of({with_status(CaseStatus::wrong)}), {left_out}},
      {"failed", run_of({with_status(CaseStatus::failed)}), {left_out}},
      {"disturbed", run_of({with_status(CaseStatus::disturbed)}), {left_out}},
      {"unproven", run_of({with_status(CaseStatus::unproven)}), {left_out}},
      {"interrupted", run_of({with_status(CaseStatus::interrupted)}), {left_out}},
      {"unchecked",
       run_of({changed(slow, [](CaseRecord& record) { record.checks.clear(); })}),
       {left_out, "--check off"}},
      {"other-mathematics",
       run_of({changed(slow, [](CaseRecord& record) { record.means = "local steps"; })}),
       {left_out}},
      {"unknown-mathematics",
       run_of({changed(
           slow, [](CaseRecord& record) { record.means.clear(), record.checks[0].status = CheckStatus::skipped; })}),
       {left_out}},
      {"skipped", run_of({with_status(CaseStatus::skipped)}), {left_out}},
  };
}

TEST(AnswerRules, EachRuleOfTheAnswerWritesItsSentenceForARunToWhichItApplies) {
  std::set<std::string> reasons, sentences;
  for (const AnswerRule& rule : reason_rules()) reasons.insert(rule.name);
  for (const RuleCase& one : rule_cases()) {
    const auto texts = texts_by(answer_of(one.report), reasons.contains(one.rule) ? "fastest" : one.rule);
    ASSERT_FALSE(texts.empty()) << one.rule;
    EXPECT_TRUE(mentions_in_order(texts[0], one.parts)) << one.rule;
    EXPECT_TRUE(sentences.insert(texts[0]).second) << one.rule << " writes what another rule writes: " << texts[0];
  }
}

// A reason rule explains why a case is slower (reason_rules()). The sentence about the fastest case must contain the
// text of the reason rule that applies to the slower case.
TEST(AnswerRules, SentenceAboutTheFastestCaseContainsTheReasonWhyAnotherIsSlower) {
  for (const RuleCase& one : rule_cases()) {
    const auto rule = std::ranges::find_if(
        reason_rules(), [&](const AnswerRule& each) { return std::string_view(each.name) == one.rule; });
    if (rule == reason_rules().end()) continue;
    const CaseGroups groups = groups_of(one.report);
    const auto group = std::ranges::find(groups.groups, 2u, [](const CaseGroup& each) { return each.members.size(); });
    ASSERT_NE(group, groups.groups.end()) << one.rule;
    const Answer answer = answer_of(one.report);
    const GroupFacts facts{one.report, group->members, group_of_world(answer, 2).choices, group->paired,
                           group->launches};
    const RankedCase& slower = group->members.back();
    ASSERT_TRUE(rule->holds(facts, slower)) << one.rule;
    EXPECT_TRUE(mentions(texts_by(answer, "fastest").at(0), {rule->text(facts, slower)})) << one.rule;
  }
}

// Speed-ups relative to different references cannot rank cases, so the sentence names the throughputs.
TEST(AnswerRules, GiveThroughputsIfSpeedupsHaveNoCommonReference) {
  const Report run = without_baseline(run_of({timed("ddp", 2, 1.66, 0.05), timed("dp", 2, 1.665, 0.05)}));
  const auto texts = texts_by(answer_of(run), "tied");
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(mentions_in_order(texts[0], {"dp", "106560 samples/s", "world of 2", "ddp", "106240 samples/s", " 2 %"}));
  EXPECT_EQ(texts[0].find("one device"), std::string::npos) << texts[0];
}

TEST(AnswerRules, GiveTheReferenceItsThroughputInsteadOfASpeedupOverItself) {
  Report run = run_of({timed("ddp", 2, 1.8, 0.01), timed("zero1", 2, 0.83, 0.01)});
  const auto fastest_in = [](const Report& report, int world) {
    return group_of_world(answer_of(report), world).sentences.at(0).text;
  };
  EXPECT_TRUE(mentions_in_order(fastest_in(run, 1), {"cpu", "baseline", "64000 samples/s"}));
  run.config["reference"] = "ddp";
  EXPECT_TRUE(mentions_in_order(fastest_in(run, 2),
                                {"ddp", "fastest", "reference", "115200 samples/s", "world of 2", "zero1", "20 %"}));
  run = run_of({timed("ddp", 2, 1.8, 0.01), timed("zero1", 2, 1.02, 0.05)});
  run.config["reference"] = "ddp";
  EXPECT_TRUE(mentions_in_order(fastest_in(run, 2), {"zero1", "1.02x (0.97 to 1.07)", "ddp", "world of 2", "ddp",
                                                     "reference", "115200 samples/s"}));
}

TEST(AnswerRules, EachRuleOfTheAnswerHasExactlyOneTestCase) {
  std::multiset<std::string> rules, tested;
  for (const AnswerRule& rule : group_rules()) rules.insert(rule.name);
  for (const AnswerRule& rule : reason_rules()) rules.insert(rule.name);
  for (const RunRule& rule : run_rules()) rules.insert(rule.name);
  for (const RuleCase& one : rule_cases()) tested.insert(one.rule);
  EXPECT_EQ(rules, tested);
}

TEST(AnswerRules, NameThePartOfMemoryWithMoreThanHalfOfTheDifferenceOfTwoStrategies) {
  const auto text = [](const MemoryParts& of_ddp, const MemoryParts& of_fsdp) {
    const auto with = [](CaseRecord record, int64_t megabytes, const MemoryParts& parts) {
      record = with_memory(std::move(record), megabytes);
      RankRecord rank;
      rank.profile = Profile{.memory = parts};
      record.launches.push_back({.ranks = {rank}});
      return record;
    };
    const Report report =
        run_of({with(timed("ddp", 2, 1.8, 0.01), 400, of_ddp), with(timed("fsdp", 2, 1.6, 0.01), 164, of_fsdp)});
    return texts_by(answer_of(report), "less-memory").at(0);
  };
  // ddp needs 400 MiB in all and fsdp 164 MiB, a difference of 236 MiB.
  EXPECT_TRUE(
      mentions_in_order(text({.state = 300 * mib, .activations = 80 * mib}, {.gradients = mib, .state = 100 * mib}),
                        {"fsdp", "11 to 14 %", "state", "100.0 MiB", "300.0 MiB"}));
  const auto names_a_part = [&](const MemoryParts& of_ddp, const MemoryParts& of_fsdp) {
    return text(of_ddp, of_fsdp).find("MiB") != std::string::npos;
  };
  EXPECT_FALSE(names_a_part({.state = 110 * mib, .activations = 110 * mib}, {})) << "two parts share it";
  EXPECT_FALSE(names_a_part({.state = 8 * mib}, {})) << "most of it is not in tensors";
  EXPECT_FALSE(names_a_part({.state = 300 * mib}, {.buffers = 310 * mib})) << "the tensors need more";
}

// dp is one process with all replicas, so its memory cannot be compared with that of a rank.
TEST(AnswerRules, NameASlowerCaseAsAChoiceOnlyIfItNeedsLessMemoryThanTheFastest) {
  const auto answer_with_dp = [](int64_t of_fsdp) {
    return answer_of(
        run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 164), with_memory(timed("fsdp", 2, 1.6, 0.01), of_fsdp),
                with_memory(timed("dp", 2, 1.5, 0.01), 50)}));
  };
  EXPECT_TRUE(mentions(texts_by(answer_with_dp(100), "front").at(0), {"ddp and fsdp"}));
  EXPECT_TRUE(texts_by(answer_with_dp(164), "front").empty()) << "nothing needs less memory than ddp";
}

TEST(AnswerRules, SayAmongHowManyCasesACaseNeedsTheLeastMemoryIfNotAllCompare) {
  const auto text = [](const std::string& rule, int64_t of_fsdp, const std::string& third) {
    return texts_by(answer_of(run_of({with_memory(timed("ddp", 2, 1.8, 0.01), 100),
                                      with_memory(timed("fsdp", 2, 1.6, 0.01), of_fsdp),
                                      with_memory(timed(third, 2, 1.5, 0.01), of_fsdp)})),
                    rule)
        .at(0);
  };
  EXPECT_TRUE(mentions_in_order(text("tied-memory", 100, "dp"), {"ddp", "2 cases"}));
  EXPECT_TRUE(mentions_in_order(text("least-memory", 164, "dp"), {"ddp", "2 cases"}));
  EXPECT_EQ(text("tied-memory", 100, "zero1").find("cases"), std::string::npos);
  EXPECT_EQ(text("least-memory", 164, "zero1").find("cases"), std::string::npos);
}

// Rules of the answer that do not apply to a run must write no sentence.
TEST(AnswerRules, WriteNoSentenceForARunToWhichTheyDoNotApply) {
  const Answer clear = answer_of(run_of({timed("ddp", 2, 1.8, 0.01), timed("zero1", 2, 1.6, 0.01)}));
  for (const char* rule :
       {"alone", "undecided", "tied", "below-one-device", "less-memory", "least-memory", "tied-memory", "no-loss",
        "ceiling", "front", "few-launches", "noisy", "decide", "nothing-compares", "busy", "skipped"})
    EXPECT_TRUE(texts_by(clear, rule).empty()) << rule;
}

TEST(AnswerSummary, StartsWithTheLargestWorldAndHasAtMostTheGivenNumberOfLines) {
  const Answer answer =
      answer_of(run_of({timed("ddp", 1, 0.9, 0.01), timed("zero1", 1, 0.8, 0.01), timed("ddp", 2, 1.8, 0.01),
                        timed("zero1", 2, 1.6, 0.01), with_status(CaseStatus::failed)}));
  const auto lines = brief_lines(answer, 4);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(mentions_in_order(lines[0], {"toy, world 2: ", "ddp", "fastest", "1.80x"}));
  EXPECT_TRUE(mentions_in_order(lines[2], {"toy, world 1: ", "cpu", "fastest"}));
  EXPECT_EQ(brief_lines(answer, 1).size(), 1u);
  EXPECT_TRUE(mentions_in_order(brief_lines(answer, 20).back(), {"zero1", "failed"}));
}

TEST(AnswerSummary, LeavesOutTheLoadThatStandsAboveTheTable) {
  Report busy = run_of({timed("ddp", 2, 1.8, 0.01), timed("zero1", 2, 1.6, 0.01)});
  const auto lines = brief_lines(answer_of(busy), 20);
  busy.disturbance = "other programs took 1.0 of 2 cores in 1 of 3 cases";
  ASSERT_EQ(texts_by(answer_of(busy), busy_rule).size(), 1u);
  EXPECT_EQ(brief_lines(answer_of(busy), 20), lines);
}

}  // namespace
}  // namespace dpbench
