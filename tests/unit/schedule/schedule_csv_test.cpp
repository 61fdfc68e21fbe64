// Tests schedules as CSV files: a written schedule is read back unchanged, torch's letters for actions are understood,
// and the error for a bad file names the line.
#include <gtest/gtest.h>

#include "strategies/schedule/csv.h"
#include "strategies/schedule/lower.h"
#include "strategies/schedule/verify.h"
#include "tests/support/contains.h"
#include "tests/unit/schedule/cases.h"
#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

TEST(ScheduleCsv, ReadsBackWrittenSchedulesUnchanged) {
  for (const Family& family : families()) {
    if (family.name == "dualpipe") continue;
    for_each_size(
        family,
        [&](const Request& request) {
          for (const Schedule& schedule : {make_schedule(family, request), lower(make_schedule(family, request))}) {
            const Schedule read = read_csv(write_csv(schedule), "test");
            ASSERT_EQ(read.ranks, schedule.ranks) << family.name << ", " << text_of(request);
            ASSERT_EQ(read.rank_of, schedule.rank_of) << family.name << ", " << text_of(request);
            ASSERT_EQ(read.microbatches, schedule.microbatches);
            ASSERT_TRUE(verify(read).empty());
          }
        },
        4, 9);
  }
}

TEST(ScheduleCsv, IgnoresEmptyCellsTheCellNoneAndCarriageReturns) {
  const Schedule schedule = read_csv("0F0, 0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,None,\r\n\r\n", "test");
  ASSERT_EQ(schedule.world(), 2);
  EXPECT_EQ(schedule.ranks[0].size(), 4U);
  EXPECT_EQ(schedule.microbatches, 2);
  EXPECT_TRUE(verify(schedule).empty());
}

TEST(ScheduleCsv, ReadsOverlappedForwardBackwardPairsAndShardingActions) {
  const std::string text =
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
      "1RECV_F0,1F0,1RECV_F1,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1SEND_B1\n";
  const Schedule schedule = read_csv(text, "test");
  EXPECT_TRUE(schedule.ranks[1][3].overlaps_next);
  EXPECT_TRUE(verify(schedule).empty()) << text_of(verify(schedule)[0]);
  EXPECT_EQ(write_csv(schedule), text);
}

void expect_refused(const std::string& text, std::initializer_list<std::string_view> words) {
  try {
    read_csv(text, "mine.csv");
    ADD_FAILURE() << "accepted " << text;
  } catch (const UsageError& error) {
    EXPECT_TRUE(mentions(error.what(), words));
  }
}

TEST(ScheduleCsv, RefusesFilesWithInvalidActionsOrInvalidPairsOfAForwardAndABackwardPass) {
  expect_refused("", {"mine.csv", "no actions"});
  expect_refused(",,\n", {"mine.csv", "no actions"});
  expect_refused("0F0,0B0\n1F0,1X0\n", {"mine.csv, line 2, cell 2: '1X0'"});
  for (const std::string cell : {"0F", "F0", "0F0 0B0", "0F-1", "0UNSHARD3", "0F99999999"})
    expect_refused(cell + "\n", {"line 1, cell 1: '" + cell + "'", "action"});
  expect_refused("999999F999999\n", {"1000000 stages", "1000000 micro-batches", "1 actions"});
  expect_refused("(0F0,0B0\n", {"'(0F0'", "pair"});
  expect_refused("(0F0;0F1)OVERLAP_F_B\n", {"'(0F0;0F1)OVERLAP_F_B'", "backward"});
  expect_refused("(0F0;0B1)OVERLAP\n", {"'(0F0;0B1)OVERLAP'", "pair"});
}

TEST(ScheduleCsv, RefusesToWriteAScheduleOfTwoPipelines) {
  EXPECT_THROW(write_csv(make_schedule(*find_family("dualpipe"), {4, 1, 8})), UsageError);
}

}  // namespace
}  // namespace dpbench::pipeline
