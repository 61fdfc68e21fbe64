// Tests pictures of schedules: lanes, boxes and widths in the terminal, and the elements of the SVG.
#include <algorithm>

#include <gtest/gtest.h>

#include "strategies/schedule/draw.h"
#include "strategies/schedule/lower.h"
#include "tests/support/contains.h"
#include "tests/unit/schedule/cases.h"

namespace dpbench::pipeline {
namespace {

std::string picture(const std::string& name, const Request& request, const TextStyle& style) {
  const Schedule schedule = make_schedule(*find_family(name), request);
  return draw_text(schedule, simulate(schedule), style);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(DrawText, ShowsALaneForEachRankAndABoxForEachComputation) {
  EXPECT_EQ(picture("1f1b", {2, 1, 2}, {}),
            "rank 0 F0 F1       B0---    B1---\n"
            "rank 1    F0 B0--- F1 B1---\n");
}

TEST(DrawText, NamesTheStageIfARankHasSeveral) {
  EXPECT_EQ(picture("zbv", {1, 2, 1}, {}), "rank 0 0F0 1F0 1I0 1W0 0I0 0W0\n");
}

TEST(DrawText, OverlappedForwardAndBackwardPassesEachGetHalfOfTheColumns) {
  const std::string text = picture("dualpipe", {2, 1, 4}, {});
  EXPECT_NE(text.find("3F3-- 0B0--"), std::string::npos) << text;
}

TEST(DrawText, UsesOneLetterForABoxIfThePictureIsTooWide) {
  const std::string text = picture("1f1b", {2, 1, 8}, {.width = 40});
  EXPECT_TRUE(
      text.starts_with("rank 0 FF  BBFBBFBBFBBFBBFBBFBB BB\n"
                       "rank 1  FBBFBBFBBFBBFBBFBBFBBFBB\n"))
      << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
  EXPECT_NE(text.find("one letter"), std::string::npos) << text;
}

// A width of 31 leaves 24 columns for 12 units of time. Boxes of 2 columns have no space for the number of the
// micro-batch.
TEST(DrawText, AGivenTimeSpanSetsTheScaleAndNarrowBoxesShowOnlyTheLetterOfTheirAction) {
  EXPECT_EQ(picture("1f1b", {2, 1, 2}, {.width = 31, .span = 12}),
            "rank 0 FFFF    B0-   B1-\n"
            "rank 1   FFB0- FFB1-\n");
}

TEST(DrawText, CutsAPictureThatIsTooWideEvenWithOneLetterPerBox) {
  const std::string text = picture("1f1b", {2, 1, 32}, {.width = 40});
  EXPECT_TRUE(mentions_in_order(text, {" 66 columns", "-o svg"}));
  EXPECT_EQ(text.find('\n'), 40U);
}

TEST(DrawText, ColoursMicroBatchesDifferently) {
  const std::string text = picture("1f1b", {1, 1, 2}, {.colour = true});
  EXPECT_EQ(count_of(text, "\x1B[30;48;5;117m"), 2U);  // F0 and B0 have the same background colour
  EXPECT_EQ(count_of(text, "\x1B[30;48;5;215m"), 2U);
  EXPECT_EQ(count_of(text, "\x1B[0m"), 4U);
  EXPECT_EQ(text.find('-'), std::string::npos);
}

TEST(DrawSvg, HasABoxForEachComputationAndEscapesTheTitle) {
  const Schedule schedule = make_schedule(*find_family("zb-h1"), {3, 1, 5});
  const std::string svg = draw_svg(schedule, simulate(schedule), "a<b & c");
  EXPECT_EQ(count_of(svg, "<rect"), 1 + 3 * 5 * 3U);
  EXPECT_NE(svg.find("a&lt;b &amp; c"), std::string::npos);
  EXPECT_NE(svg.find("<title>2W4 (stage 2, micro-batch 4)</title>"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<svg"), 1U);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(DrawSvg, DrawsTheMeasuredScheduleBeneathThePlannedOneOnTheSameTimeScale) {
  const Schedule schedule = make_schedule(*find_family("1f1b"), {2, 1, 2});
  const Simulation planned = simulate(schedule), ran = simulate(schedule, {.forward = 2});
  const std::string svg = draw_svg(schedule, planned, "both", &ran);
  EXPECT_EQ(count_of(svg, "<rect"), 1 + 2 * 2 * 2 * 2U);
  for (const char* lane : {"plan 0", "plan 1", "ran 0", "ran 1"}) EXPECT_EQ(count_of(svg, lane), 1U) << lane;
  // the time axis ends at 12: the planned schedule takes 9 units of time, the measured one 12
  EXPECT_NE(svg.find(">12</text>"), std::string::npos) << svg;
}

}  // namespace
}  // namespace dpbench::pipeline
