// Printed tables and progress lines: columns, missing figures, output formats and colors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "harness/front/plan/machine.h"
#include "harness/front/run/columns.h"
#include "harness/front/run/progress/progress.h"
#include "harness/front/run/table.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "tests/support/contains.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Sets an environment variable and restores its former value at the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

const Variable unlimited("COLUMNS", "100000");  // keeps tables from folding to the terminal's width

CaseRecord record(const std::string& strategy, const std::string& workload, int world, CaseStatus status) {
  CaseRecord one;
  one.spec.strategy = strategy;
  one.spec.workload = workload;
  one.spec.world = world;
  one.spec.id = case_id(one.spec);
  one.status = status;
  return one;
}

// Returns a report with three cases: one measured at 2 ms per step, one failed and one skipped.
Report report() {
  Report all;
  all.cases.push_back(record("cpu", "toy", 1, CaseStatus::ok));
  CaseRecord& measured = all.cases.back();
  measured.spec.baseline = true;
  measured.step_time_ns = {
      .median = 2e6, .ci95_low = 1.9e6, .ci95_high = 2.1e6, .interval = IntervalOver::launches, .n = 10, .launches = 5};
  measured.derived = {
      .samples_per_s = 32000, .speedup = 1, .efficiency = 1, .comm_fraction = std::nullopt, .noise = 0.0123};
  measured.checks.push_back({.name = "output-shape", .status = CheckStatus::passed});
  all.cases.push_back(record("ddp", "toy", 2, CaseStatus::failed));
  all.cases.back().spec.backend = "shm";
  all.cases.back().reason = "rank 1 was ended by signal 9\nits last words: \x1B[31mred|<b>";
  all.cases.push_back(record("cpu", "other", 1, CaseStatus::skipped));
  return all;
}

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> all;
  for (const auto& word : split(line, ' '))
    if (!word.empty()) all.push_back(word);
  return all;
}

TEST(Table, ShowsMeasurementsUnderTheirColumnTitles) {
  const auto lines = split(report_table(report(), false), '\n');
  ASSERT_GE(lines.size(), 7u);
  EXPECT_TRUE(mentions_in_order(lines[0], {"toy · CPU · weak", " 64 ", " · f32", " · torch runtime"}));
  EXPECT_EQ(lines[1].substr(0, 8), "STRATEGY");
  EXPECT_EQ(words(lines[2]), (std::vector<std::string>{"cpu", "1", "2.000", "5.0", "%", "32000", "1.00x", "100", "%",
                                                       "-", "1.2", "%", "-", "ok", "baseline"}));
}

TEST(Table, ShowsTokensPerSecondBesideSamplesPerSecond) {
  Report all = report();
  all.cases[0].derived.tokens_per_s = 4096000;
  EXPECT_NE(report_table(all, false).find(" 32000 (4096000 tokens) "), std::string::npos) << report_table(all, false);
}

TEST(Table, ShowsSpeedupAndEfficiencyWithTheirIntervals) {
  Report all = report();
  all.cases[0].derived.speedup_low = 0.9, all.cases[0].derived.speedup_high = 1.1;
  all.cases[0].derived.efficiency_low = 0.9, all.cases[0].derived.efficiency_high = 1.1;
  const std::string line = split(report_table(all, false), '\n')[2];
  EXPECT_NE(line.find("1.00±0.10x"), std::string::npos) << line;
  EXPECT_NE(line.find("100±10 %"), std::string::npos) << line;
}

TEST(Table, MarksAnEfficiencyWithAnIntervalAbove100Percent) {
  Report all = report();
  all.cases[0].derived.efficiency = 1.35, all.cases[0].derived.efficiency_high = 1.45;
  for (const auto& [low, mark] : {std::pair(0.9, " %  "), std::pair(1.25, " % !  ")}) {
    all.cases[0].spec.baseline = false;
    all.cases[0].derived.efficiency_low = low;
    const std::string line = split(report_table(all, false), '\n')[2];
    EXPECT_NE(line.find(std::string(low < 1 ? "135±28" : "135±10") + mark), std::string::npos) << line;
  }
}

TEST(Table, ReplicasThatShareCoresHaveNoEfficiency) {
  Report all = report();
  all.env = {{"cpu", {{"usable", 2}}}};
  all.cases[0].spec.world = 4;
  all.cases[0].derived.efficiency_low = 0.9, all.cases[0].derived.efficiency_high = 1.1;
  EXPECT_EQ(split(report_table(all, false), '\n')[2].find("100 %"), std::string::npos);
  const TableView view{.columns = {"world", "efficiency", "efficiency_low", "efficiency_high"}};
  EXPECT_EQ(split(report_csv(all, view), '\n')[1], "4,,,");
  all.cases[0].spec.world = 2;
  EXPECT_EQ(split(report_csv(all, view), '\n')[1], "2,1,0.9,1.1");
}

TEST(Table, CutsLongNotesOnATerminalOnly) {
  Report all = report();
  all.cases[0].notices = {std::string(200, 'n') + "end"};
  EXPECT_EQ(report_table(all, false).find("nend"), std::string::npos);
  if (::isatty(STDOUT_FILENO)) GTEST_SKIP() << "stdout is a terminal";
  const Variable columns("COLUMNS", "");
  EXPECT_NE(report_table(all, false).find("nend"), std::string::npos);
}

TEST(Table, StrategiesThatDoNotComputeTheBatchMeanHaveTheirOwnSection) {
  Report all = report();
  all.cases[0].means = batch_mean;
  all.cases.push_back(all.cases[0]);
  all.cases.back().means = "local steps";
  const std::string text = report_table(all, false);
  const size_t apart = text.find("other mathematics");
  ASSERT_NE(apart, std::string::npos) << text;
  EXPECT_GT(text.find("local steps"), apart);
  EXPECT_LT(text.find(batch_mean), apart);
}

TEST(Table, DisturbanceIsStatedOnceAboveTheTableAndMarkedInItsRows) {
  Report all = report();
  all.disturbance = "other programs took 1.0 of 2 cores in 1 of 3 cases";
  all.cases[0].launches.push_back({.index = 0, .ranks = {}, .reference_ns = {}, .others = OtherLoad{.programs = 1}});
  const std::string text = report_table(all, false);
  EXPECT_TRUE(text.starts_with("! other programs took 1.0 of 2 cores in 1 of 3 cases\n")) << text;
  EXPECT_EQ(text.find("other programs", 5), std::string::npos) << text;
  EXPECT_NE(split(text, '\n')[4].find("! busy"), std::string::npos) << text;
  EXPECT_TRUE(report_markdown(all).starts_with("> other programs took 1.0")) << report_markdown(all);
}

TEST(Table, ShowsTheTagsOfARunFirst) {
  Report all = report();
  all.config = {{"tags", {{"host", "a\x1B[31m"}, {"pr", "12"}}}};
  EXPECT_TRUE(report_table(all, false).starts_with("host=a")) << report_table(all, false);
  EXPECT_NE(split(report_table(all, false), '\n')[0].find(" · pr=12"), std::string::npos);
  EXPECT_TRUE(report_markdown(all).starts_with("host=a"));
  all.config["tags"] = 3;
  EXPECT_TRUE(report_table(all, false).starts_with("toy"));
}

TEST(Table, ShowsMissingFiguresAsDashes) {
  const auto lines = split(report_table(report(), false), '\n');
  const auto failed = words(lines[3]);
  EXPECT_EQ(std::vector<std::string>(failed.begin(), failed.begin() + 11),
            (std::vector<std::string>{"ddp", "2", "-", "-", "-", "-", "-", "-", "-", "-", "failed"}));
  EXPECT_EQ(report_table(report(), false).find("nan"), std::string::npos);
}

TEST(Table, EveryWorkloadHasItsOwnHeading) {
  const std::string text = report_table(report(), false);
  EXPECT_LT(text.find("toy · "), text.find("other · "));
  EXPECT_NE(text.find("\n\nother · "), std::string::npos);
}

TEST(Table, GroupsRowsByWorkload) {
  Report all = report();
  all.cases.push_back(record("dp", "toy", 2, CaseStatus::ok));
  const std::string text = report_table(all, false);
  EXPECT_LT(text.find("\ndp "), text.find("other · "));
}

TEST(Table, ShowsOnlyTheFirstLineOfTheReasonForAFailure) {
  const std::string text = report_table(report(), false);
  EXPECT_NE(text.find("rank 1 was ended by signal 9"), std::string::npos);
  EXPECT_EQ(text.find("last words"), std::string::npos);
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
}

TEST(Table, AlignsTheCheckColumnWithItsTitle) {
  const auto lines = split(report_table(report(), false), '\n');
  const size_t check = lines[1].substr(0, lines[1].find("CHECK")).size();
  EXPECT_EQ(display_width(lines[1].substr(0, check)), display_width(lines[2].substr(0, lines[2].find("ok "))));
}

TEST(Table, ColorsOkGreenAndFailedRed) {
  const std::string text = report_table(report(), true);
  EXPECT_NE(text.find("\x1B[32mok\x1B[0m"), std::string::npos);
  EXPECT_NE(text.find("\x1B[31mfailed\x1B[0m"), std::string::npos);
}

TEST(Fold, LongTextInATableWrapsWithinItsColumnOrMovesBelowItsRow) {
  const std::vector<std::vector<std::string>> rows = {
      {"NAME", "N", "WHAT IT IS"}, {"a", "1", "one two three four five six seven"}, {"b", "22", ""}};
  const std::vector<bool> right = {false, true, false};
  EXPECT_EQ(join(folded_rows(rows, right, 40), "\n"),
            "NAME   N  WHAT IT IS\n"
            "a      1  one two three four five six\n"
            "          seven\n"
            "b     22");
  EXPECT_EQ(join(folded_rows(rows, right, 30), "\n"),
            "NAME   N\n"
            "  WHAT IT IS\n"
            "a      1\n"
            "  one two three four five six\n"
            "  seven\n"
            "b     22");
  EXPECT_EQ(folded_rows(rows, right, 0)[1], "a      1  one two three four five six seven");
}

TEST(Fold, NumbersAndSingleWordsInATableNeverWrap) {
  const std::vector<std::vector<std::string>> rows = {{"CASE", "STEP", "CHANGE"},
                                                      {"ddp/random-linear/cpu:2/shm", "1.2 ms", "[+2.4, +3.9]"}};
  EXPECT_EQ(folded_rows(rows, {false, true, true}, 40)[1], "ddp/random-linear/cpu:2/shm  1.2 ms\n  [+2.4, +3.9]");
  EXPECT_EQ(folded_rows(rows, {false, true, true}, 24)[1], "ddp/random-linear/cpu:2/shm\n  1.2 ms  [+2.4, +3.9]");
}

TEST(Fold, SentencesOutsideTablesWrapWithAnIndentAndKeepBlankLines) {
  const std::string text = "A short line\n  one two three four five six seven eight\n\n" + std::string(40, 'x') + "\n";
  EXPECT_EQ(folded(text), text);
  const Variable columns("COLUMNS", "30");
  EXPECT_EQ(folded(text),
            "A short line\n  one two three four five\n    six seven eight\n\n" + std::string(40, 'x') + "\n");
}

TEST(Table, SentencesBelowATableFoldToTheWidthInTheVariableColumns) {
  const std::string sentence = "ddp is fastest: 1.80x (1.79 to 1.81) of one device in a world of 2.";
  Answer answer;
  answer.groups = {{.setting = "toy",
                    .world = 2,
                    .choices = {{.time = Standing::best}, {.time = Standing::behind}},
                    .sentences = {{.rule = "fastest", .text = sentence}}}};
  const Variable columns("COLUMNS", "40");
  for (const std::string& text : {answer_text(answer, Form::table), brief_answer(answer, 4, Form::table),
                                  judgement_text({{"CASE"}}, {false}, sentence, Form::table)}) {
    for (const auto& line : split(text, '\n')) EXPECT_LE(display_width(line), 40u) << line;
    EXPECT_NE(text.find("1.80x"), std::string::npos);
  }
  EXPECT_NE(brief_answer(answer, 4, Form::markdown).find(sentence), std::string::npos) << "Markdown stays whole";
}

TEST(Table, FoldsToTheWidthInTheVariableColumnsAndKeepsItsWordsAndColors) {
  Report all = report();
  all.cases[0].warnings = {"other programs took up to 0.9 of 2 cores: stop them"};
  all.cases[0].derived.tokens_per_s = 4096000;
  const auto sorted_words = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    auto all_words = words(text);
    std::ranges::sort(all_words);
    return all_words;
  };
  const std::string whole = report_table(all, false);
  for (const char* width : {"60", "80", "100"}) {
    const Variable columns("COLUMNS", width);
    const std::string folded = report_table(all, false);
    for (const auto& line : split(folded, '\n')) EXPECT_LE(display_width(line), std::stoul(width)) << line;
    EXPECT_EQ(sorted_words(folded), sorted_words(whole)) << folded;
    EXPECT_NE(folded.find("32000 (4096000 tokens)"), std::string::npos) << "a figure stays whole";
    const std::string colored = report_table(all, true);
    for (const char* cell : {"  \x1B[32mok\x1B[0m", "  \x1B[31mfailed\x1B[0m"})
      EXPECT_NE(colored.find(cell), std::string::npos) << colored;
  }
}

TEST(Color, TheVariableForceColorColorsOutputWithoutATerminalUnlessNoColorIsSet) {
  const int no_terminal = -1;
  struct Row {
    const char *force, *no;
    bool colored;
  };
  for (const Row& row : {Row{"1", "", true}, Row{"0", "", false}, Row{"", "", false}, Row{"1", "1", false}}) {
    const Variable force("FORCE_COLOR", row.force), no("NO_COLOR", row.no);
    EXPECT_EQ(coloured(Color::automatic, no_terminal), row.colored) << row.force << " " << row.no;
    EXPECT_TRUE(coloured(Color::always, no_terminal));
    EXPECT_FALSE(coloured(Color::never, no_terminal));
  }
}

TEST(Table, ShowsStepTimesWithFourSignificantDigits) {
  Report all = report();
  const std::vector<std::pair<double, std::string>> table = {
      {38.6e3, " 0.03860 "}, {24.5e6, " 24.50 "}, {1.2345e9, " 1234 "}, {1e3, " 0.001000 "}};
  for (const auto& [ns, shown] : table) {
    all.cases[0].step_time_ns->median = ns;
    EXPECT_NE(report_table(all, false).find(shown), std::string::npos) << shown;
  }
}

TEST(Table, ShowsTheBackendTheParametersTheUnevenBatchAndTheWarningsOfACase) {
  Report all = report();
  CaseRecord& ddp = all.cases[1];
  ddp.spec.params = {{"bucket_mb", "1"}};
  ddp.spec.scaling = Scaling::strong;
  ddp.spec.batch = 63;
  ddp.spec.processes = 2;
  ddp.warnings = {"noise 5 % is above --max-noise 2 %"};
  const std::string text = report_table(all, false);
  for (const char* part : {"shm", "bucket_mb=1", "first ranks", "! noise 5 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(Markdown, EscapesMarkup) {
  Report all = report();
  all.cases[1].reason = "a|b <b> `c`";
  const std::string text = report_markdown(all);
  EXPECT_NE(text.find("a\\|b &lt;b> \\`c\\`"), std::string::npos);
  EXPECT_NE(text.find("| STRATEGY | WORLD |"), std::string::npos);
}

TEST(Csv, HasOneRowPerCaseAndEmptyFieldsForMissingFigures) {
  const auto lines = split(report_csv(report()), '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[0].starts_with("case,strategy,workload"));
  EXPECT_NE(lines[1].find(",ok,2000000,1900000,2100000,32000,1,1,,0.0123,"), std::string::npos) << lines[1];
  EXPECT_NE(lines[3].find(",skipped,,,,,,,,,0,"), std::string::npos) << lines[3];
}

TEST(Csv, LastColumnsHaveThreadsWarningsCommitStartTimeFormulasAndEachParameter) {
  Report all = report();
  all.id = "20261121T063057Z-a1b2c3d-2xEPYC-5f3a";
  all.tool = {{"commit", "0000000"}, {"directory_commit", "a1b2c3d"}};
  all.cases[0].spec.threads = 2;
  all.cases[0].spec.runtime = Runtime::fast;
  all.cases[0].step_time_ns->p99 = 2.5e6;
  all.cases[0].warnings = {"one", "two, three"};
  all.cases[1].spec.params = {{"bucket_mb", "1"}, {"graph", "on"}};
  RankRecord& rank = all.cases[0].launches.emplace_back().ranks.emplace_back();
  rank.model_parameters = 1000, rank.model_bytes = 4000;
  const auto lines = split(report_csv(all), '\n');
  const auto ends_with = [](const std::string& line, const std::string& end) {
    EXPECT_TRUE(line.ends_with(end)) << line;
  };
  ends_with(lines[0],
            ",commit,start_time,model_parameters,model_bytes,efficiency_low,efficiency_high,tensor_bytes,"
            "formula_tensor_bytes,flop_per_step,formula_flop_per_step,collectives_per_step,collective_bytes_per_step,"
            "param.bucket_mb,param.graph");
  ends_with(lines[0].substr(0, lines[0].find(",commit")), ",temporary_bytes,threads,runtime,p99_ns,warnings");
  ends_with(lines[1], ",2,fast,2500000,\"one · two, three\",a1b2c3d,2026-11-21T06:30:57+00:00,1000,4000,,,,,,,,,,");
  ends_with(lines[2], ",1,torch,,,a1b2c3d,2026-11-21T06:30:57+00:00,,,,,,,,,,,1,on");
  all.tool = {{"commit", "0000000"}};
  all.id = "mine";
  ends_with(split(report_csv(all), '\n')[1], ",0000000,,1000,4000,,,,,,,,,,");
}

TEST(TableView, ChoosesTheColumnsOfTableMarkdownAndCsv) {
  const TableView view{.columns = {"strategy", "memory", "step"}};
  Report all = report();
  all.cases[0].derived.peak_memory_bytes = 3 << 20;
  EXPECT_EQ(words(split(report_table(all, true, view), '\n')[1]),
            (std::vector<std::string>{"STRATEGY", "MEMORY", "MiB", "STEP", "ms"}));
  EXPECT_EQ(words(split(report_table(all, true, view), '\n')[2]), (std::vector<std::string>{"cpu", "3", "2.000"}));
  EXPECT_EQ(split(report_csv(all, view), '\n')[0], "strategy,peak_memory_bytes,step_time_ns");
  EXPECT_EQ(split(report_csv(all, view), '\n')[1], "cpu,3145728,2000000");
  EXPECT_TRUE(report_markdown(all, view).find("| STRATEGY | MEMORY MiB | STEP ms |") != std::string::npos);
}

TEST(TableView, ShowsThePartsOfMemoryOfTheRankThatNeedsMost) {
  const TableView view{.columns = {"strategy", "parameters", "activations"}};
  Report all = report();
  RankRecord small, large;
  small.profile = Profile{.memory = MemoryParts{.parameters = 5 << 20}};
  large.profile = Profile{.memory = MemoryParts{.parameters = 3 << 20, .activations = 1 << 22}};
  all.cases[0].launches = {{.ranks = {small, large}}, {.ranks = {small, RankRecord{}}}};
  EXPECT_EQ(words(split(report_table(all, true, view), '\n')[2]), (std::vector<std::string>{"cpu", "3.0", "4.0"}));
  const auto lines = split(report_csv(all, view), '\n');
  EXPECT_EQ(lines[0], "strategy,parameter_bytes,activation_bytes");
  EXPECT_EQ(lines[1], "cpu,3145728,4194304");
  EXPECT_TRUE(lines[2].ends_with(",,")) << lines[2];
}

TEST(TableView, ShowsTheRatiosOfMemoryFlopAndCollectivesToTheirFormulas) {
  const TableView view{
      .columns = {"parameters", "state", "tensors", "formula", "calls", "volume", "flop", "formula-flop"}};
  Report all = report();
  CaseRecord& one = all.cases[0];
  RankRecord rank;
  rank.profile = Profile{.memory = MemoryParts{.parameters = 3 << 20, .temporary = 1 << 20}};
  one.launches = {{.ranks = {rank}}};
  one.memory_formula = MemoryFormula{.parameters = 2 << 20, .activations = 3 << 20};
  one.derived.collectives_per_step = 6, one.derived.formula_collectives_per_step = 4;
  one.derived.collective_bytes_per_step = 1 << 20, one.derived.formula_collective_bytes_per_step = 1 << 21;
  one.derived.flop_per_step = 3e9, one.derived.formula_flop_per_step = 2e9;
  EXPECT_EQ(words(split(report_table(all, true, view), '\n')[2]),
            (std::vector<std::string>{"3.0", "(1.50)", "0.0", "4.0", "(0.80)", "5.0", "6", "(1.50)", "1.0", "(0.50)",
                                      "3", "(1.50)", "2"}));
  EXPECT_EQ(split(report_csv(all, view), '\n')[1], "3145728,0,4194304,5242880,6,1048576,3e+09,2e+09");
}

TEST(TableView, HasAColumnForAParameterWithTheDefaultOfCasesThatDoNotSetIt) {
  Report all = report();
  all.defaults = {{"ddp", {{"bucket_mb", "25"}}}};
  all.cases.push_back(all.cases[1]);
  all.cases.back().spec.params = {{"bucket_mb", "5"}};
  const TableView view{.columns = {"strategy", "param.bucket_mb"}, .sort = "param.bucket_mb:desc"};
  EXPECT_EQ(report_csv(all, view), "strategy,param.bucket_mb\nddp,25\nddp,5\ncpu,\ncpu,\n");
  const auto lines = split(report_table(all, false, view), '\n');
  EXPECT_EQ(words(lines[1]), (std::vector<std::string>{"STRATEGY", "bucket_mb"}));
  EXPECT_EQ(words(lines[2]), (std::vector<std::string>{"ddp", "25"}));
  EXPECT_NE(report_markdown(all, view).find("| cpu | - |"), std::string::npos) << report_markdown(all, view);
  const auto without_view = split(report_csv(all), '\n');
  EXPECT_TRUE(without_view[0].ends_with(",param.bucket_mb")) << without_view[0];
  EXPECT_TRUE(without_view[2].ends_with(",25")) << without_view[2];
}

TEST(TableView, SortsByAColumnWithMissingFiguresLast) {
  Report all;
  for (const auto& [name, ns] : std::vector<std::pair<std::string, double>>{{"b", 9e5}, {"none", 0}, {"a", 1e7}}) {
    all.cases.push_back(record(name, "toy", 2, CaseStatus::ok));
    if (ns > 0) all.cases.back().step_time_ns = {.median = ns, .n = 1, .launches = 1};
  }
  const auto order = [&](const std::string& sort) {
    std::string names;
    for (const auto& line : split(report_csv(all, {.columns = {"strategy"}, .sort = sort}), '\n')) names += line + " ";
    return names;
  };
  EXPECT_EQ(order("step"), "strategy b a none ");
  EXPECT_EQ(order("step:desc"), "strategy a b none ");
  EXPECT_EQ(order("strategy"), "strategy a b none ");
  EXPECT_EQ(order(""), "strategy b none a ");
}

TEST(TableView, RefusesAnUnknownColumnAndSuggestsTheNearest) {
  const std::vector<std::string> parameters = {"bucket_mb", "graph"};
  EXPECT_NO_THROW(check_view({.columns = {"step", "step_time_ns"}, .sort = "speedup:desc"}, parameters));
  EXPECT_NO_THROW(check_view({.columns = {"param.graph"}, .sort = "param.bucket_mb:desc"}, parameters));
  const auto expect_refused = [&](const std::string& name, const std::vector<std::string_view>& words) {
    for (const TableView& view : {TableView{.columns = {name}}, TableView{.columns = {}, .sort = name + ":desc"}}) try {
        check_view(view, parameters);
        ADD_FAILURE() << name << " is not refused";
      } catch (const UsageError& error) {
        EXPECT_TRUE(mentions_in_order(error.what(), words));
      }
  };
  expect_refused("stpe", {"'stpe'", "'step'"});
  expect_refused("param.bucket_mp", {"'param.bucket_mp'", "'bucket_mb'"});
}

TEST(Csv, QuotesCommasAndNeutralizesFormulas) {
  EXPECT_EQ(as_csv({{"a,b", "say \"x\"", "=cmd()", "-1.5", "-"}}), "\"a,b\",\"say \"\"x\"\"\",'=cmd(),-1.5,-\n");
}

TEST(PlanTable, ShowsPlannedCasesAndSkippedCasesWithReasons) {
  Plan plan;
  plan.cases = {record("cpu", "toy", 1, CaseStatus::ok).spec, record("ddp", "toy", 2, CaseStatus::ok).spec};
  plan.notes = {{plan.cases[1].id, "a note"}};
  plan.skipped = {{record("gpu", "toy", 1, CaseStatus::ok).spec, "no driver"}};
  const auto rows = plan_rows(plan);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[2].back(), "a note");
  EXPECT_EQ(rows[3].back(), "skipped: no driver");
  EXPECT_EQ(plan_json(plan)["notes"][plan.cases[1].id], rows[2].back());
  EXPECT_EQ(plan_json(plan)["skipped"][0]["reason"], "no driver");
}

TEST(Progress, IsAnimatedOnlyOnCapableTerminals) {
  MeasuringOptions options;
  EXPECT_EQ(progress_style(options, true, "xterm"), ProgressStyle::moving);
  EXPECT_EQ(progress_style(options, true, "dumb"), ProgressStyle::plain);
  EXPECT_EQ(progress_style(options, true, nullptr), ProgressStyle::plain);
  EXPECT_EQ(progress_style(options, false, "xterm"), ProgressStyle::plain);
  options.progress = ProgressChoice::plain;
  EXPECT_EQ(progress_style(options, true, "xterm"), ProgressStyle::plain);
  options.quiet = true;
  EXPECT_EQ(progress_style(options, true, "xterm"), ProgressStyle::none);
}

TEST(Progress, PlainStylePrintsOneLinePerFinishedCaseWithTheTimeLeft) {
  testing::internal::CaptureStderr();
  {
    ProgressLine line(ProgressStyle::plain, false, 2, 100, 2);
    line.begin("a", 100);
    line.end("a", "1 ms a step", 105);
    line.end("b", "3 ms a step", 108);
    line.end("a", "2 ms a step", 115);
    line.over("a", "2 ms a step", 115);
    line.note("not without -v");
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("1/2 · a · 2 ms a step · ")) << text;
  EXPECT_NE(text.find("5 s"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n') + 1, text.size()) << "one line: " << text;
}

TEST(Progress, MovingStyleShowsHowManyScenariosOfTheChecksHaveBegun) {
  testing::internal::CaptureStderr();
  {
    ProgressLine line(ProgressStyle::moving, false, 2, 100, 1);
    line.begin("a", 100);
    line.state("a", "checking: 4 of 8");
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" 0/2 · a · checking: 4 of 8\r"), std::string::npos) << text;
}

TEST(Progress, ShowsDurationsInSecondsMinutesOrHours) {
  EXPECT_EQ(duration_text(8.4), "8 s");
  EXPECT_EQ(duration_text(100), "1m40s");
  EXPECT_EQ(duration_text(7500), "2h05m");
}

TEST(Machine, RoundsTheCpuLimitOfACgroupUpToWholeCores) {
  EXPECT_EQ(cores_of_cpu_max("150000 100000\n"), 2);
  EXPECT_EQ(cores_of_cpu_max("50000 100000\n"), 1);
  EXPECT_EQ(cores_of_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(cores_of_cpu_max("-1 100000\n"), 0);
  EXPECT_EQ(cores_of_cpu_max(""), 0);
}

TEST(Machine, ObeysCudaVisibleDevices) {
  std::vector<GpuState> all(3);
  for (int i = 0; i < 3; ++i) all[i].uuid = std::string("GPU-") + static_cast<char>('a' + i) + "0";
  const auto seen = [&](const char* variable) {
    std::string names;
    for (const auto& gpu : visible_gpus(all, variable)) names += gpu.uuid[4];
    return names;
  };
  EXPECT_EQ(seen(nullptr), "abc");
  EXPECT_EQ(seen(""), "");
  EXPECT_EQ(seen("2,0"), "ca");
  EXPECT_EQ(seen("1,7,0"), "b");
  EXPECT_EQ(seen("-1"), "");
  EXPECT_EQ(seen("GPU-c"), "c");
}

}  // namespace
}  // namespace dpbench
