// Tests the rows that a trace gets for a pipeline (the actions as they ran and as planned), with a hand-made trace of
// two steps.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "harness/front/run/pipeline/rows.h"
#include "harness/report/export/trace.h"

namespace dpbench {
namespace {

struct HandSpan {
  int rank;
  std::string action;
  double from, until;
};

// One step of 1f1b with two micro-batches, times in us. A forward pass (F) takes 10 on stage 0 and 20 on stage 1, a
// backward pass (B) 30 and 40. Rank 1 waits for the first activation, which arrives 5 after its send; rank 0 waits for
// both gradients, which arrive 6 after their sends. The second activation arrives while rank 1 computes. A receive has
// two spans; the second ends when the tensor has arrived.
const std::vector<HandSpan>& hand_step() {
  static const std::vector<HandSpan> spans = {
      {0, "0F0", 100, 110},      {0, "0SEND_F0", 110, 111}, {0, "0F1", 112, 122},    {0, "0SEND_F1", 122, 123},
      {0, "0RECV_B0", 123, 124}, {0, "0RECV_B0", 124, 182}, {0, "0B0", 182, 212},    {0, "0RECV_B1", 212, 213},
      {0, "0RECV_B1", 213, 244}, {0, "0B1", 244, 274},      {1, "1RECV_F0", 90, 91}, {1, "1RECV_F0", 95, 115},
      {1, "1F0", 115, 135},      {1, "1RECV_F1", 135, 136}, {1, "1B0", 136, 176},    {1, "1SEND_B0", 176, 177},
      {1, "1RECV_F1", 177, 178}, {1, "1F1", 178, 198},      {1, "1B1", 198, 238},    {1, "1SEND_B1", 238, 239}};
  return spans;
}

// Returns a merged trace of steps 7 and 8. Step 8 begins 1000 us later, and its action 0B1 (stage 0, B of micro-batch
// 1) takes 4 us longer. left_out: an action that the trace lacks.
Json hand_trace(const std::string& left_out = "") {
  Json events = Json::array();
  for (const int64_t step : {7, 8})
    for (const auto& [rank, action, from, until] : hand_step()) {
      if (action == left_out) continue;
      const double longer = step == 8 && action == "0B1" ? 4 : 0;
      events.push_back({{"ph", "X"},
                        {"cat", "user_annotation"},
                        {"name", "pipeline " + std::to_string(step) + " " + action},
                        {"pid", rank * rows_per_rank},
                        {"tid", 5},
                        {"ts", from + (step == 8 ? 1000 : 0)},
                        {"dur", until - from + longer}});
    }
  return {{"traceEvents", events}};
}

// Returns the event of an action in a step. category: "pipeline" for the row of what ran, "planned pipeline" for the
// row of the plan.
Json row_event(const Json& trace, const std::string& category, const std::string& action, int64_t step) {
  for (const Json& event : trace["traceEvents"])
    if (event.value("cat", "") == category && event["name"] == action && event["args"]["step"] == step) return event;
  return {};
}

TEST(PipelineRows, ShowEachActionAsItRanBesideItsPlannedTimes) {
  Json trace = hand_trace();
  add_pipeline_rows(trace, {{0, 1}});
  const Json last = row_event(trace, "pipeline", "0B1", 8);
  EXPECT_EQ(last["ts"], 1244.0);
  EXPECT_EQ(last["dur"], 34.0);
  EXPECT_EQ(last["args"]["start_us"], 144.0);
  EXPECT_EQ(last["args"]["end_us"], 178.0);
  EXPECT_EQ(last["args"]["planned_start_us"], 141.0);
  EXPECT_EQ(last["args"]["planned_end_us"], 171.0);
  const Json receive = row_event(trace, "pipeline", "1RECV_F0", 7);
  EXPECT_EQ(receive["ts"], 90.0);
  EXPECT_EQ(receive["dur"], 25.0);
  EXPECT_EQ(receive["pid"], rows_per_rank);
  EXPECT_EQ(receive["args"]["planned_start_us"], 10.0);
  EXPECT_EQ(receive["args"]["planned_end_us"], 15.0);
  const Json planned = row_event(trace, "planned pipeline", "1F1", 8);
  EXPECT_EQ(planned["ts"], 1100.0 + 75);
  EXPECT_EQ(planned["dur"], 20.0);
}

TEST(PipelineRows, OfATraceAreReadBackAsTheActionsThatRan) {
  Json trace = hand_trace();
  add_pipeline_rows(trace, {{0, 1}});
  const std::vector<TracedPipeline> pipelines = traced_pipelines(trace, "hand");
  ASSERT_EQ(pipelines.size(), 1U);
  EXPECT_EQ(pipelines[0].ranks, (std::vector<int>{0, 1}));
  const MeasuredPipeline measured = measure_pipeline(pipelines[0].steps, "hand");
  ASSERT_TRUE(measured.family);
  EXPECT_EQ(measured.family->name, "1f1b");
  EXPECT_EQ(measured.steps, 2U);
  EXPECT_NEAR(measured.costs.forward, 0.015, 1e-9);
  EXPECT_NEAR(measured.costs.input_gradient, 0.035, 1e-9);
  EXPECT_EQ(measured.costs.weight_gradient, 0);
  EXPECT_NEAR(measured.costs.links.at({0, 1}).latency, 0.005, 1e-9);
  EXPECT_NEAR(measured.costs.links.at({1, 0}).latency, 0.006, 1e-9);
  EXPECT_NEAR(measured.planned.makespan, 0.171, 1e-9);
  EXPECT_NEAR(measured.planned.step_bubble(1), 0.051, 1e-9);
  EXPECT_NEAR(measured.ran.makespan, 0.174, 1e-9);  // time of the shorter of the two steps
  EXPECT_NEAR(measured.ran.step_bubble(0), 0.094, 1e-9);
  EXPECT_NEAR(measured.ran.step_bubble(1), 0.054, 1e-9);
}

TEST(MeasuredPipeline, CostsAreMeansOverMicroBatchesIfOnlySomeBackwardPassesAreSplit) {
  RanStep step(1);
  double start = 0;
  for (const auto& [action, time] :
       std::vector<std::pair<std::string, double>>{{"0F0", 10}, {"0F1", 10}, {"0I0", 4}, {"0W0", 6}, {"0B1", 14}}) {
    step[0].push_back({pipeline::parse_action(action, "hand"), start, start + time});
    start += time;
  }
  const pipeline::Costs costs = measure_pipeline({step}, "hand").costs;
  EXPECT_EQ(costs.forward, 10);
  EXPECT_EQ(costs.input_gradient, 9);
  EXPECT_EQ(costs.weight_gradient, 3);
}

TEST(PipelineRows, AreNotAddedToATraceWithoutPipelines) {
  Json trace = hand_trace();
  add_pipeline_rows(trace, {});
  EXPECT_EQ(trace, hand_trace());
  EXPECT_TRUE(traced_pipelines(trace, "hand").empty());
}

TEST(PipelineRows, OfATraceWhoseActionsFormNoPipelineScheduleAreRefused) {
  Json trace = hand_trace("1B1");
  try {
    add_pipeline_rows(trace, {{0, 1}});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("missing-work: rank 1"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dpbench
