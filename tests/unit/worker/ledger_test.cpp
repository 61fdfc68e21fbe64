// Tests the ledger of a profile: counted calls and bytes of each collective operation beside the strategy's formula.
#include "harness/worker/measure/ledger.h"

#include <gtest/gtest.h>

namespace dpbench {
namespace {

using Calls = std::deque<CollectiveLog::Call>;

void call(Calls& calls, const std::string& op, const std::string& axis, Phase phase, int64_t bytes) {
  CollectiveLog::Call& one = calls.emplace_back();
  one.op = op, one.axis = axis, one.phase = static_cast<int>(phase), one.bytes = bytes;
}

TEST(CollectiveLedger, HasAnEntryForEachOperationOfEachAxisWithMeansOverSteps) {
  Calls calls;
  for (int step = 0; step < 2; ++step) {
    call(calls, "allreduce", "dp", Phase::backward, 100);
    call(calls, "allreduce", "dp", Phase::backward, 20);
    call(calls, "allreduce", "tp", Phase::forward, 8);
  }
  call(calls, "allreduce", "dp", Phase::optimizer, 6);  // this allreduce is called in only one of the two steps
  calls.emplace_back().op = "broadcast";
  calls.back().axis = "dp";  // this broadcast is called on the strategy's own thread, outside any phase
  calls.back().bytes = 4;
  const auto ledger = ledger_of(calls, std::nullopt, 2);
  ASSERT_EQ(ledger.size(), 3U);
  EXPECT_EQ(ledger[0].axis + " " + ledger[0].op, "dp allreduce");
  EXPECT_EQ(ledger[0].calls, 2.5);
  EXPECT_EQ(ledger[0].bytes, 123);
  EXPECT_EQ(ledger[0].phase_bytes, (std::map<std::string, double>{{"backward", 120}, {"optimizer", 3}}));
  EXPECT_EQ(ledger[0].formula_bytes, std::nullopt);
  EXPECT_EQ(ledger[1].axis + " " + ledger[1].op, "dp broadcast");
  EXPECT_EQ(ledger[1].phase_bytes, (std::map<std::string, double>{{"none", 2}}));
  EXPECT_EQ(ledger[2].axis + " " + ledger[2].op, "tp allreduce");
  EXPECT_EQ(ledger[2].bytes, 8);
}

TEST(CollectiveLedger, ListsOperationsThatOnlyTheTrafficFormulaOrOnlyTheStepHas) {
  Calls calls;
  call(calls, "allgather", "dp", Phase::communication, 10);
  call(calls, "allreduce", "dp", Phase::backward, 30);
  const Formula formula = std::vector<Traffic>{
      {"dp", "allreduce", 10}, {"dp", "allreduce", 20}, {"dp", "broadcast", 7}, {"dp", "scatter", 0}};
  const auto ledger = ledger_of(calls, formula, 1);
  ASSERT_EQ(ledger.size(), 3U);
  EXPECT_EQ(ledger[0].op, "allgather");
  EXPECT_EQ(ledger[0].formula_bytes, 0);
  EXPECT_EQ(ledger[1].op, "allreduce");
  EXPECT_EQ(ledger[1].formula_bytes, 30);
  EXPECT_EQ(ledger[2].op, "broadcast");
  EXPECT_EQ(ledger[2].calls, 0);
  EXPECT_EQ(ledger[2].formula_bytes, 7);
}

TEST(CollectiveLedger, HasNoFormulaForAnOperationWhoseAmountTheSamplesDetermine) {
  Calls calls;
  call(calls, "alltoall", "ep", Phase::forward, 40);
  call(calls, "allreduce", "ep", Phase::communication, 10);
  const Formula formula =
      std::vector<Traffic>{{"ep", "allreduce", 10, 1}, {.axis = "ep", .op = "alltoall", .unknown = true}};
  const auto ledger = ledger_of(calls, formula, 1);
  ASSERT_EQ(ledger.size(), 2U);
  EXPECT_EQ(ledger[0].formula_bytes, 10);
  EXPECT_EQ(ledger[1].op, "alltoall");
  EXPECT_EQ(ledger[1].formula_bytes, std::nullopt);
  EXPECT_EQ(ledger[1].formula_calls, std::nullopt);
}

TEST(CollectiveLedger, FormulaCallsOfAnOperationAreKnownOnlyIfEachOfItsFormulaEntriesHasANumberOfCalls) {
  const Formula formula = std::vector<Traffic>{{"dp", "allgather", 6, 3},
                                               {"dp", "allgather", 6, 3},
                                               {"dp", "allreduce", 10, 1},
                                               {"dp", "allreduce", 20},
                                               {"dp", "allreduce", 10, 1}};
  Calls calls;
  call(calls, "scatter", "dp", Phase::scatter, 8);
  const auto ledger = ledger_of(calls, formula, 2);
  ASSERT_EQ(ledger.size(), 3U);
  EXPECT_EQ(ledger[0].formula_calls, 3);
  EXPECT_EQ(ledger[1].formula_calls, std::nullopt);
  EXPECT_EQ(ledger[1].formula_bytes, 20);
  EXPECT_EQ(ledger[2].formula_calls, 0) << "the formula lacks the scatter";
  EXPECT_EQ(ledger_of(calls, std::nullopt, 2)[0].formula_calls, std::nullopt);
}

TEST(CollectiveLedger, TrafficFormulaOfDdpCoversEachProfiledStepAndIsUnknownWithFindUnused) {
  const auto workload = workload_registry().at("random-linear").make({});
  CaseSpec spec;
  const auto of = [&](const std::string& name, const ParamValues& params) {
    spec.strategy = name;
    const dpbench::Setup setup{.workload = *workload,
                               .devices = {at::kCPU},
                               .mesh = {},
                               .params = Params(strategy_registry().at(name).params, params, name),
                               .clip_norm = {}};
    return formula_of(spec, setup, /*rank=*/0, /*first=*/6, /*micro=*/std::vector<std::vector<int64_t>>(10, {1}));
  };
  EXPECT_EQ(of("cpu", {}), std::nullopt);
  EXPECT_EQ(of("ddp", {{"find_unused", "on"}}), std::nullopt);
  ASSERT_TRUE(of("ddp", {{"broadcast_buffers", "off"}}));
  EXPECT_EQ(of("ddp", {{"broadcast_buffers", "off"}})->size(), 4U);
}

}  // namespace
}  // namespace dpbench
