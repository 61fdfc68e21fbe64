// PairedRunner: blocks of a case alternate with blocks of its reference, the case to which its speed is compared.
// Blocks of steps that lost their cores to other programs are measured again. Fake runners replace the worker
// processes, so nothing is started or timed.
#include "harness/front/run/duel/paired_runner.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/front/toy_case.h"

namespace dpbench {
namespace {

using Kind = CaseOutcome::Kind;

// Stands in for the workers: answers each block of 10 steps with the step time and the waiting time that the test sets.
class FakeSide : public CaseRunner {
 public:
  FakeSide(std::string name, std::vector<std::string>& calls) : name_(std::move(name)), calls_(calls) {}

  CaseOutcome run(const CaseSpec& spec, const Json& command) override {
    const bool block = command.at("do") == "block";
    if (!block) {
      ended_with = command.at("blocks").get<std::vector<int>>();
      retakes = command.at("retake");
      audits_last_steps = command.at("last_steps");
    }
    calls_.push_back(name_ + " " + std::string(command.at("do")));
    steps = command.at("sampling").at("steps");
    if (signal_at == blocks + 1 && block) return {.kind = Kind::interrupted, .signal = 2};
    if (const auto failed = failure ? failure(++number_) : ""; !failed.empty())
      return {.kind = Kind::failed, .reason = failed};
    RankRecord rank;
    rank.steps_per_sample = steps_per_block;
    rank.parameters_hash = spec.id;
    if (!block) rank.profile = profile, rank.phases_ns = {{"communication", 100}};
    if (block)
      rank.samples_ns = {ns}, rank.queue_ns = {queue_ns(++blocks)}, rank.cpu_ns = {cpu_ns}, rank.switches = {1};
    return {.kind = Kind::ran, .ranks = {rank}, .checks = {{.name = "of the " + name_}}};
  }
  std::vector<std::string> end_group() override { return {}; }
  int pending_signal() override { return 0; }

  std::vector<int> ended_with;
  bool retakes = false, audits_last_steps = false;
  std::optional<Profile> profile;
  int64_t ns = 1000, cpu_ns = 0, steps = -1, steps_per_block = 10;
  int blocks = 0, signal_at = 0;  // signal_at: the number of the block in which a signal arrives
  std::function<int64_t(int block)> queue_ns = [](int) { return 0; };
  std::function<std::string(int call)> failure;

 private:
  std::string name_;
  std::vector<std::string>& calls_;
  int number_ = 0;
};

Json block_of(const Sampling& sampling, bool last_steps = true) {
  return {{"do", "block"}, {"sampling", to_json(sampling)}, {"last_steps", last_steps}, {"check", true}};
}

class PairedRunnerTest : public testing::Test {
 protected:
  CaseOutcome run(const CaseSpec& spec, PairedRunner::Rules rules = {.cores = 2}, bool has_reference = true) {
    const CaseSpec reference = spec_of("cpu");
    PairedRunner runner(
        cases_, references_, [&](const CaseSpec&) { return has_reference ? &reference : nullptr; }, rules);
    return runner.run(spec, block_of({.samples = 4}));
  }

  std::vector<std::string> calls_;
  FakeSide cases_{"case", calls_}, references_{"reference", calls_};
};

TEST_F(PairedRunnerTest, AlternatesBlocksOfTheCaseAndItsReference) {
  references_.ns = 500;
  const CaseOutcome outcome = run(spec_of("ddp", 2));
  ASSERT_EQ(outcome.kind, Kind::ran);
  EXPECT_EQ(outcome.ranks.at(0).samples_ns, (std::vector<int64_t>{1000, 1000, 1000, 1000}));
  EXPECT_EQ(outcome.reference_ns, (std::vector<double>{50, 50, 50, 50})) << "the time of a step";
  EXPECT_EQ(outcome.checks.at(0).name, "of the case");
  ASSERT_EQ(calls_.size(), 2u + 2 * 4 + 1) << "one block of each that does not count, four pairs and the end";
  for (size_t pair = 2; pair + 1 < calls_.size() - 1; pair += 2) EXPECT_NE(calls_[pair], calls_[pair + 1]);
  EXPECT_EQ(calls_.back(), "case end");
}

TEST_F(PairedRunnerTest, LaterBlocksOfTheReferenceHaveAsManyStepsAsItsFirst) {
  run(spec_of("ddp", 2));
  EXPECT_EQ(references_.steps, 10);
}

TEST_F(PairedRunnerTest, TheReferenceIsWarmedUpOncePerLaunchAndAgainAfterAFailure) {
  const CaseSpec reference = spec_of("cpu");
  PairedRunner runner(cases_, references_, [&](const CaseSpec&) { return &reference; }, {.cores = 2});
  const auto blocks_of_reference = [&] {
    references_.blocks = 0;
    runner.run(spec_of("ddp", 2), block_of({.samples = 4}));
    runner.end_group();
    EXPECT_EQ(references_.steps, 10);
    return references_.blocks;
  };
  EXPECT_EQ(blocks_of_reference(), 1 + 4);
  EXPECT_EQ(blocks_of_reference(), 4);
  runner.end_launch();
  EXPECT_EQ(blocks_of_reference(), 1 + 4) << "its processes are new";
  references_.failure = [](int call) { return call == 2 ? "no memory" : ""; };
  blocks_of_reference();
  EXPECT_EQ(blocks_of_reference(), 1 + 4) << "it failed";
}

TEST_F(PairedRunnerTest, TheEndOfALaunchSaysWhetherItsLastStepsAreAlwaysAudited) {
  PairedRunner runner(cases_, references_, [](const CaseSpec&) { return nullptr; }, {.cores = 2});
  for (const bool always : {true, false}) {
    runner.run(spec_of("cpu"), block_of({.samples = 4}, always));
    EXPECT_EQ(cases_.audits_last_steps, always);
  }
}

TEST_F(PairedRunnerTest, ACaseWithOneLongStepPerBlockHasFewerBlocks) {
  const auto blocks = [&](int64_t steps_per_block, int64_t ns, const Sampling& sampling = {.samples = 9}) {
    cases_.steps_per_block = steps_per_block, cases_.ns = ns;
    PairedRunner runner(cases_, references_, [](const CaseSpec&) { return nullptr; }, {.cores = 2, .long_blocks = 6});
    return runner.run(spec_of("cpu"), block_of(sampling)).ranks.at(0).samples_ns.size();
  };
  EXPECT_EQ(blocks(1, 200'000'000), 6u);
  EXPECT_EQ(blocks(1, 90'000'000), 9u) << "shorter than a block has to be";
  EXPECT_EQ(blocks(2, 200'000'000), 9u) << "of two steps";
  EXPECT_EQ(blocks(1, 200'000'000, {.samples = 9, .steps = 1}), 9u) << "as asked for";
  EXPECT_EQ(blocks(1, 200'000'000, {.samples = 3}), 3u);
}

TEST_F(PairedRunnerTest, ACaseWithoutReferenceIsMeasuredAlone) {
  const CaseOutcome outcome = run(spec_of("cpu"), {.cores = 2}, false);
  EXPECT_EQ(outcome.ranks.at(0).samples_ns.size(), 4u);
  EXPECT_TRUE(outcome.reference_ns.empty());
  EXPECT_EQ(references_.blocks, 0);
}

TEST_F(PairedRunnerTest, ADisturbedBlockOfTheCaseOrItsReferenceIsMeasuredAgain) {
  // the ranks wait for a core in the case's first block that counts
  cases_.queue_ns = [](int block) { return block == 2 ? 300 : 0; };
  // The ranks wait for a core in the reference's third block that counts.
  references_.queue_ns = [](int block) { return block == 4 ? 300 : 0; };
  const CaseOutcome outcome = run(spec_of("ddp", 2));
  EXPECT_EQ(outcome.ranks.at(0).samples_ns.size(), 4u);
  EXPECT_EQ(outcome.ranks.at(0).queue_ns, (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(outcome.disturbed_blocks, 2);
  EXPECT_EQ(cases_.blocks, 1 + 6);
}

// Returns a fake source of readings of the cores' busy times, 1 s apart. In each second, this program uses one core and
// other programs use `load` cores.
ReadCpuTimes times_with(double load) {
  return [=, seconds = 0.0]() mutable {
    seconds += 1;
    return std::optional(CpuTimes{.wall_s = seconds, .busy_s = (1 + load) * seconds, .ours_s = seconds});
  };
}

TEST_F(PairedRunnerTest, BlocksThatWaitedForACoreAreDisturbedUnlessOtherProgramsWereIdle) {
  cases_.queue_ns = [](int) { return 300; };
  EXPECT_EQ(run(spec_of("ddp", 2), {.cores = 2, .cpu_times = times_with(0.02)}).disturbed_blocks, 0);
  EXPECT_EQ(run(spec_of("ddp", 2), {.cores = 2, .cpu_times = times_with(0.5)}).disturbed_blocks, 8);
  EXPECT_EQ(run(spec_of("ddp", 2), {.cores = 2}).disturbed_blocks, 8) << "the load is not known";
}

// Returns a profile in which the ranks waited for a core for 30 % of a step.
Profile starved_profile() {
  return {.steps = 10, .step_ns = 1000, .exposed_ns = 100, .queue_ns = 300, .cpu_ns = 700, .flop = 7};
}

TEST_F(PairedRunnerTest, AProfileOfRanksThatWaitedForACoreReportsOperationCountsButNoTimes) {
  cases_.profile = starved_profile();
  const RankRecord rank = run(spec_of("ddp", 2)).ranks.at(0);
  EXPECT_TRUE(rank.profile->disturbed);
  EXPECT_TRUE(rank.phases_ns.empty());
  EXPECT_FALSE(rank.profile->exposed_ns.has_value());
  EXPECT_EQ(rank.profile->flop, 7) << "counts hold";
  EXPECT_TRUE(cases_.retakes);
}

TEST_F(PairedRunnerTest, TheTimesOfAProfileAreKeptOnRequestOrIfNoOtherProgramCausedTheWaitForACore) {
  const auto dropped = [&](const CaseSpec& spec, const PairedRunner::Rules& rules) {
    return run(spec, rules).ranks.at(0).profile->disturbed;
  };
  cases_.profile = starved_profile();
  EXPECT_FALSE(dropped(spec_of("ddp", 2), {.cores = 2, .cpu_times = times_with(0.02)}));
  EXPECT_FALSE(cases_.retakes);
  EXPECT_FALSE(dropped(spec_of("ddp", 2), {.cores = 2, .keep_disturbed = true}));
  EXPECT_FALSE(cases_.retakes);
  EXPECT_FALSE(dropped(spec_of("ddp", 4), {.cores = 2})) << "its replicas wait for one another";
  cases_.profile->cpu_ns = 990;
  EXPECT_FALSE(dropped(spec_of("ddp", 2), {.cores = 2})) << "the process used its core";
}

TEST_F(PairedRunnerTest, GivesUpIfTwiceAsManyBlocksAsNeededWereAllDisturbed) {
  cases_.queue_ns = [](int) { return 600; };
  const CaseOutcome outcome = run(spec_of("ddp", 2));
  EXPECT_EQ(outcome.disturbed_blocks, 8);
  EXPECT_TRUE(outcome.ranks.at(0).samples_ns.empty());
  EXPECT_TRUE(outcome.reference_ns.empty());
}

TEST_F(PairedRunnerTest, ReplicasThatShareCoresAreNotDisturbedByEachOther) {
  cases_.queue_ns = [](int) { return 600; };
  EXPECT_EQ(run(spec_of("ddp", 4)).disturbed_blocks, 0) << "four replicas on two cores";
}

TEST_F(PairedRunnerTest, AProcessThatUsedItsWholeCoreIsNotDisturbed) {
  cases_.queue_ns = [](int) { return 600; };
  cases_.cpu_ns = 990;
  EXPECT_EQ(run(spec_of("ddp", 2)).disturbed_blocks, 0);
}

TEST_F(PairedRunnerTest, KeepsBlocksDisturbedByOtherProgramsOnRequest) {
  cases_.queue_ns = [](int) { return 600; };
  const CaseOutcome outcome = run(spec_of("ddp", 2), {.cores = 2, .keep_disturbed = true});
  EXPECT_EQ(outcome.ranks.at(0).samples_ns.size(), 4u);
  EXPECT_EQ(outcome.disturbed_blocks, 0);
}

TEST_F(PairedRunnerTest, AFailedReferenceLeavesTheCaseMeasuredWithAWarning) {
  references_.failure = [](int call) { return call == 3 ? "no memory" : ""; };
  const CaseOutcome outcome = run(spec_of("ddp", 2));
  EXPECT_EQ(outcome.ranks.at(0).samples_ns.size(), 4u);
  EXPECT_TRUE(outcome.reference_ns.empty());
  ASSERT_EQ(outcome.ranks.at(0).warnings.size(), 1u);
  EXPECT_NE(outcome.ranks.at(0).warnings[0].find("no memory"), std::string::npos);
}

TEST_F(PairedRunnerTest, ASignalInABlockOfTheReferenceEndsTheCase) {
  for (const int block : {1, 2, 4}) {
    references_.blocks = cases_.blocks = 0;
    references_.signal_at = block;
    const CaseOutcome outcome = run(spec_of("ddp", 2));
    EXPECT_EQ(outcome.kind, Kind::interrupted) << block;
    EXPECT_EQ(outcome.signal, 2) << block;
  }
}

TEST_F(PairedRunnerTest, TheWorkerIsToldThatTheFirstBlockAndDisturbedBlocksDoNotCount) {
  cases_.queue_ns = [](int block) { return block == 3 ? 300 : 0; };
  run(spec_of("ddp", 2));
  EXPECT_EQ(cases_.ended_with, (std::vector<int>{1, 3, 4, 5})) << "block 0 does not count, and block 2 was disturbed";
}

TEST_F(PairedRunnerTest, AFailureInALaterTimedBlockFailsTheCaseAndKeepsTheResultsOfItsChecks) {
  cases_.failure = [](int call) { return call == 3 ? "rank 1 died" : ""; };
  const CaseOutcome outcome = run(spec_of("ddp", 2));
  EXPECT_EQ(outcome.kind, Kind::failed);
  EXPECT_EQ(outcome.reason, "rank 1 died");
  EXPECT_EQ(outcome.checks.size(), 1u);
}

}  // namespace
}  // namespace dpbench
