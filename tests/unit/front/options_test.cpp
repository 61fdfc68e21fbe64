// Parsing of the command line and the config file, help texts, and refused arguments.
#include <array>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "harness/front/cli/cli.h"
#include "harness/front/cli/help.h"
#include "harness/front/commands/commands.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

Command parsed(const std::vector<std::string>& arguments) {
  auto command = parse_command_line(commands(), arguments);
  EXPECT_TRUE(std::holds_alternative<Command>(command)) << std::get<std::string>(command);
  return std::get<Command>(std::move(command));
}

template <class Options = RunOptions>
Options parse(const std::vector<std::string>& arguments) {
  return std::any_cast<Options>(parsed(arguments).options);
}

std::string text_of(const std::vector<std::string>& arguments) {
  return std::get<std::string>(parse_command_line(commands(), arguments));
}

std::vector<std::string> flags_of(const std::string& command) {
  std::vector<std::string> names;
  for (const Flag& flag : dpbench::flags_of(commands(), command_named(commands(), command)))
    if (!flag.positional) names.push_back("--" + flag.name);
  return names;
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(commands(), arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_contains(const std::string& message, const std::vector<std::string>& parts) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const auto& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

class Config : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  std::string write(const std::string& text) {
    std::ofstream(file_) << text;
    return file_;
  }
  const std::string file_ = testing::TempDir() + "/dpbench_options_" + std::to_string(::getpid()) + ".toml";
};

TEST(Options, FlagsWithoutACommandMeanTheRunCommand) {
  const RunOptions bare = parse({"--strategy", "cpu,ddp", "--cpus", "1,2"});
  const RunOptions named = parse({"run", "--strategy", "cpu,ddp", "--cpus", "1,2"});
  EXPECT_EQ(parsed({"--strategy", "cpu,ddp"}).name, "run");
  EXPECT_EQ(parsed({"list"}).name, "list");
  EXPECT_EQ(bare.what.strategies, (std::vector<std::string>{"cpu", "ddp"}));
  EXPECT_EQ(bare.what.cpus, (std::vector<int>{1, 2}));
  EXPECT_EQ(bare.what.strategies, named.what.strategies);
}

TEST(Options, ARunWithoutANamedStrategyUsesTheQuickSettingsAndFewerCases) {
  for (const auto& arguments : {std::vector<std::string>{}, {"-o", "json", "--out", "there"}}) {
    const RunOptions options = parse(arguments);
    EXPECT_TRUE(options.quick);
    EXPECT_TRUE(options.what.fixed_models);
    EXPECT_EQ(options.long_blocks, 6);
    EXPECT_EQ(options.what.default_worlds, (std::vector<int>{2}));
    EXPECT_EQ(options.launches, 1);
    EXPECT_EQ(options.sampling.samples, 9);
    EXPECT_EQ(options.sampling.min_sample_s, 0.025);
  }
  const RunOptions chosen = parse({"--strategy", "ddp"});
  EXPECT_FALSE(chosen.quick);
  EXPECT_FALSE(chosen.what.fixed_models);
  EXPECT_TRUE(chosen.what.default_worlds.empty());
  EXPECT_EQ(chosen.launches, 5);
  EXPECT_EQ(chosen.sampling.samples, 10);
  EXPECT_EQ(chosen.sampling.min_sample_s, 0.1);
}

TEST(Options, AGivenNumberOfLaunchesOverridesTheQuickFlag) {
  const RunOptions options = parse({"--quick", "--launches", "4"});
  EXPECT_EQ(options.launches, 4);
  EXPECT_EQ(options.sampling.samples, 9);
}

TEST(Options, TheNameAllSelectsEveryStrategyOrWorkloadLikeAnOmittedFlag) {
  const auto named = [](const std::string& name) { return parse({"--strategy", name, "--workload", name}).what; };
  EXPECT_EQ(named("x").strategies, std::vector<std::string>{"x"});
  EXPECT_EQ(named("x").workloads, std::vector<std::string>{"x"});
  EXPECT_EQ(named("all").strategies, parse({}).what.strategies);
  EXPECT_EQ(named("all").workloads, parse({}).what.workloads);
}

TEST(Options, RefusesTheStrategyOrWorkloadNameAllTogetherWithOtherNames) {
  expect_contains(refusal({"--strategy", "all,x"}), {"--strategy all,x", "'x'"});
  expect_contains(refusal({"check", "--workload", "mnist-mlp", "--workload", "all"}),
                  {"--workload mnist-mlp,all", "'mnist-mlp'"});
  EXPECT_TRUE(parse({"--workload", "all,all"}).what.workloads.empty());
}

TEST(Options, ReadsNumbersNamesListsParametersAndSwitches) {
  const RunOptions o = parse(
      {"--gpus",      "1,8",     "--batch=32,64",      "--scaling", "strong", "--dtype", "f32,bf16", "--clip-norm",
       "0.5",         "--param", "ddp.bucket_mb=1,25", "--param",   "mode=a", "--check", "off",      "--no-baseline",
       "--timeout",   "2.5",     "--retries",          "2",         "-n",     "-q",      "-o",       "csv",
       "--max-noise", "2"});
  EXPECT_EQ(o.what.gpus, (std::vector<int>{1, 8}));
  EXPECT_EQ(o.what.batches, (std::vector<int64_t>{32, 64}));
  EXPECT_EQ(o.what.scaling, Scaling::strong);
  EXPECT_EQ(o.what.dtypes, (std::vector<Dtype>{Dtype::f32, Dtype::bf16}));
  EXPECT_EQ(o.what.clip_norm, 0.5);
  EXPECT_EQ(o.what.params, (std::vector<std::string>{"ddp.bucket_mb=1,25", "mode=a"}));
  EXPECT_FALSE(o.check);
  EXPECT_FALSE(o.what.baseline);
  EXPECT_EQ(o.timeout_s, 2.5);
  EXPECT_EQ(o.retries, 2);
  EXPECT_TRUE(o.dry_run && o.quiet);
  EXPECT_EQ(o.output, Form::csv);
  EXPECT_EQ(o.max_noise_percent, 2);
}

TEST(Options, ChecksBeforeTimingRunUnlessSwitchedOff) {
  EXPECT_TRUE(parse({}).check);
  EXPECT_EQ(config_json(parse({}))["check"], "auto");
  EXPECT_EQ(config_json(parse({"--check", "off"}))["check"], "off");
  expect_contains(refusal({"--check", "maybe"}), {"--check", "maybe", "auto"});
}

TEST(Options, RefusesWorldsOutside1To1024) {
  for (const std::string world : {"0", "1025", "-1", "two", "", "1.5", "1e2", "nan"})
    for (const std::string flag : {"--cpus", "--gpus"}) expect_contains(refusal({flag, world}), {flag, "1 to 1024"});
  EXPECT_EQ(parse({"--cpus", "1024"}).what.cpus, std::vector<int>{1024});
}

TEST(Options, SuggestsTheNearestFlag) {
  expect_contains(refusal({"--strateg", "cpu"}), {"--strateg", "'--strategy'"});
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{{"--strat", "'--strategy'"},
                                                                                     {"--work", "'--workload'"},
                                                                                     {"--batch-size", "'--batch'"},
                                                                                     {"--output-dir", "'--out'"},
                                                                                     {"--out-dir", "'--out'"},
                                                                                     {"--data-dir", "'--data'"},
                                                                                     {"--CPUS", "'--cpus'"},
                                                                                     {"--gpu", "'--gpus'"}})
    expect_contains(refusal({typed, "x"}), {typed, meant});
  expect_contains(refusal({"duel", "--strat", "x"}), {"'--strategy'"});
  expect_contains(refusal({"--wrld=2"}), {"--wrld"});
  expect_contains(refusal({"--cpus", "1", "2"}), {"'2'", "comma"});
}

TEST(Options, SuggestsTheNearestCommand) {
  expect_contains(refusal({"lst"}), {"'lst'", "'list'"});
  expect_contains(refusal({"hlep"}), {"'hlep'", "'help'", "dpbench --help"});
}

TEST(Options, RefusesAnUnknownValueAndShowsTheValidValues) {
  expect_contains(refusal({"--scaling", "stong"}), {"stong", "strong, weak", "'strong'"});
  expect_contains(refusal({"-o", "xml"}), {"xml", "table, json, jsonl, csv, markdown, none"});
  expect_contains(refusal({"--dtype", "f16"}), {"f16", "f32, f64, bf16"});
}

TEST(Options, RefusesAValueForASwitch) {
  expect_contains(refusal({"--no-baseline=5"}), {"--no-baseline=5", "no value"});
  expect_contains(refusal({"check", "--long=yes"}), {"--long=yes", "no value"});
}

TEST(Options, RefusesInvalidNumbers) {
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{{"--launches", "0"},
                                                                                    {"--samples", "-3"},
                                                                                    {"--timeout", "nan"},
                                                                                    {"--timeout", "inf"},
                                                                                    {"--clip-norm", "-1"},
                                                                                    {"--batch", "0"},
                                                                                    {"--seed", "-1"},
                                                                                    {"--seed", "x"},
                                                                                    {"--threads", "0"},
                                                                                    {"--retries", "1.5"},
                                                                                    {"--steps", "1e40"}})
    expect_contains(refusal({flag, value}), {flag, value});
}

TEST(Options, RefusesAListWithAnEmptyElementAndShowsTheCorrectedList) {
  const auto expect_refused = [](const std::vector<std::string>& arguments, const std::string& flag,
                                 const std::string& list, const std::string& instead) {
    std::string message = refusal(arguments);
    const std::string quoted = "'" + list + "'";
    expect_contains(message, {flag, quoted});
    if (const size_t at = message.find(quoted); at != std::string::npos) message.erase(at, quoted.size());
    expect_contains(message, {instead});
  };
  for (const auto& [flag, list, instead] :
       std::vector<std::array<std::string, 3>>{{"--cpus", "2,,3", "2,3"},
                                               {"--gpus", ",1", "1"},
                                               {"--strategy", "ddp,,dp", "ddp,dp"},
                                               {"--workload", "convnet,", "convnet"},
                                               {"--batch", "16,,64", "16,64"},
                                               {"--dtype", "f32,", "f32"},
                                               {"--backend", ",", "value"}}) {
    expect_refused({flag, list}, flag, list, instead);
    expect_refused({flag + "=" + list}, flag, list, instead);
  }
  expect_refused({"compare", "a", "b", "--fail-on", "median:5%,"}, "--fail-on", "median:5%,", "median:5%");
  expect_refused({"project", "--to", "16,,32"}, "--to", "16,,32", "16,32");
  expect_contains(refusal({"--cpus", "2,x,3"}), {"--cpus", "'x'", "1 to 1024"});
}

TEST(Options, JoinsRepeatedListFlags) {
  EXPECT_EQ(parse({"--cpus", "1,2", "--cpus", "4"}).what.cpus, (std::vector<int>{1, 2, 4}));
}

TEST(Options, RefusesAModelScaleAbove64) {
  EXPECT_EQ(parse({"--scale", "64"}).what.scale, 64);
  expect_contains(refusal({"--scale", "65"}), {"--scale", "'65'", "1 to 64"});
}

TEST(Options, CheckAcceptsAndListsExactlyItsFlagsAndHasItsOwnDefaults) {
  const std::set<std::string> accepted = {
      "--runtime", "--strategy", "--workload", "--gpus",    "--cpus",    "--dtype",    "--backend",       "--param",
      "--scale",   "--plugin",   "--filter",   "--seed",    "--threads", "--data",     "--oversubscribe", "--seeds",
      "--long",    "--junit",    "--dump",     "--timeout", "--dry-run", "--launcher", "--retries",       "--config",
      "--quiet",   "--verbose",  "--progress", "--output",  "--help",    "--version",  "--model",         "--recompute",
      "--mesh",    "--python",   "--layouts",  "--short"};
  const auto listed = flags_of("check");
  EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()), accepted);
  const std::string help = text_of({"check", "--help"});
  for (const auto& flag : accepted) EXPECT_NE(help.find(flag), std::string::npos) << flag;
  for (const auto& flag : flags_of("run"))
    if (!accepted.contains(flag))
      expect_contains(refusal({"check", flag, "1"}), {"'" + flag + "'", "dpbench check --help"});
  const auto options = parse<CheckingOptions>({"check", "--seed", "7"});
  EXPECT_EQ(options.what.default_worlds, (std::vector<int>{1, 2, 3, 6}));
  EXPECT_FALSE(options.what.check->drawn_seed);
  EXPECT_EQ(parse<CheckingOptions>({"check", "--long"}).what.default_worlds,
            (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(parse<CheckingOptions>({"check"}).what.check->drawn_seed);
  EXPECT_TRUE(options.what.check);
  EXPECT_FALSE(parse({"run"}).what.check);
  EXPECT_TRUE(parse<TrainingOptions>({"train", "--workload", "mnist-mlp", "--strategy", "cpu"}).what.whole_epochs);
  EXPECT_FALSE(parse({"run"}).what.whole_epochs);
}

TEST(Options, CheckAddsMeshesOfTwoOrThreeAxesOrDrawsTheRequestedLayouts) {
  EXPECT_TRUE(parse<CheckingOptions>({"check"}).what.check->draws_cases);
  for (const char* named : {"--strategy", "--workload"})
    EXPECT_FALSE(parse<CheckingOptions>({"check", named, "all"}).what.check->draws_cases) << named;
  for (const char* flag : {"--long", "--cpus=2", "--mesh=dp=2"})
    EXPECT_FALSE(parse<CheckingOptions>({"check", flag}).what.check->draws_cases) << flag;
  EXPECT_EQ(parse<CheckingOptions>({"check"}).what.check->products, 2);
  EXPECT_EQ(parse<CheckingOptions>({"check", "--long"}).what.check->products, 3);
  EXPECT_EQ(parse<CheckingOptions>({"check", "--cpus", "2"}).what.check->products, 0);
  const auto drawn = parse<CheckingOptions>({"check", "--layouts", "5"});
  EXPECT_EQ(drawn.what.check->layouts, 5);
  EXPECT_TRUE(drawn.what.check->names_strategies);
  EXPECT_FALSE(parse<CheckingOptions>({"check", "--layouts", "5", "--strategy", "all"}).what.check->names_strategies);
  for (const char* flag : {"--mesh=dp=2", "--cpus=2", "--model=tiny", "--param=layout.unit=2", "--recompute=1",
                           "--dtype=bf16", "--runtime=fast"})
    expect_contains(refusal({"check", "--layouts", "5", flag}), {"--layouts", "leave out"});
  EXPECT_EQ(parse<CheckingOptions>({"check", "--workload", "gpt", "--short"}).what.check->whole_worlds, 0);
  EXPECT_GT(parse<CheckingOptions>({"check", "--workload", "gpt"}).what.check->whole_worlds, 8);
}

TEST(Options, RefusesEmptyPathsAndNames) {
  for (const std::string flag : {"--data", "--out", "--save-baseline"}) {
    expect_contains(refusal({flag, ""}), {flag, "''"});
    expect_contains(refusal({flag + "=", "-n"}), {"'" + flag + "='"});
  }
  for (const std::string flag : {"--data", "--junit", "--dump"})
    expect_contains(refusal({"check", flag, ""}), {flag, "''"});
  for (const std::string flag : {"--data", "--out", "--save", "--resume"})
    expect_contains(refusal({"train", "--workload", "w", "--strategy", "s", flag, ""}), {flag, "''"});
  EXPECT_EQ(parse({"--filter", "a="}).what.filter, "a=");
}

TEST(Options, RefusesABaselineWithFewerLaunchesThanCompareNeeds) {
  for (std::vector<std::string> arguments : std::vector<std::vector<std::string>>{
           {}, {"--quick"}, {"--cpus", "2", "--quick"}, {"--cpus", "2", "--launches", "3"}}) {
    arguments.insert(arguments.end(), {"--save-baseline", "main"});
    expect_contains(refusal(arguments), {"--save-baseline 'main'", "Add --launches 4"});
  }
  EXPECT_EQ(parse({"--quick", "--launches", "4", "--save-baseline", "main"}).launches, 4);
  EXPECT_EQ(parse({"--cpus", "2", "--save-baseline", "main"}).launches, 5);
}

TEST(Options, RefusesADuelWithFewerLaunchesThanAVerdictNeeds) {
  expect_contains(refusal({"duel", "--pairs", "30", "--pairs-per-launch", "10"}), {"--pairs-per-launch 10", "Use 9 "});
  EXPECT_EQ(refusal({"duel", "--pairs", "30", "--pairs-per-launch", "9"}), "accepted");
  expect_contains(refusal({"duel", "--pairs-per-launch", "54"}), {"160 pairs", "Use 53 "});
  EXPECT_EQ(refusal({"duel", "--pairs-per-launch", "53"}), "accepted");
}

TEST(Options, ALaunchOfADuelHasAsManyBlocksAsPairs) {
  EXPECT_EQ(parse<DuelOptions>({"duel"}).sampling.samples, 5);
  EXPECT_EQ(parse<DuelOptions>({"duel", "--pairs-per-launch", "7"}).sampling.samples, 7);
}

TEST(Options, TagsAreStoredInTheReportAndInvalidTagsRefused) {
  const RunOptions options = parse({"--tag", "pr=12", "--tag", "note=a=b, c", "--tag", "empty="});
  EXPECT_EQ(config_json(options)["tags"], Json({{"empty", ""}, {"note", "a=b, c"}, {"pr", "12"}}));
  for (const std::string wrong : {"pr", "=12", "a b=1", ""})
    expect_contains(refusal({"--tag", wrong}), {"--tag", "'" + wrong + "'", "KEY=VALUE"});
  expect_contains(refusal({"--tag", "a=1", "--tag", "a=2"}), {"--tag", "'a'", "twice"});
  expect_contains(refusal({"--tag", "a=" + std::string(200, 'x')}), {"200"});
}

TEST(Options, WorldsMayBeRangesAndSequences) {
  const std::vector<std::pair<std::string, std::vector<int>>> lists = {{"1-4", {1, 2, 3, 4}},
                                                                       {"2-2", {2}},
                                                                       {"1,4-6,9", {1, 4, 5, 6, 9}},
                                                                       {"1,2,4,..,16", {1, 2, 4, 8, 16}},
                                                                       {"2,4,6,..,12", {2, 4, 6, 8, 10, 12}},
                                                                       {"1-3,..,6", {1, 2, 3, 4, 5, 6}},
                                                                       {"1,3,9,..,27,30", {1, 3, 9, 27, 30}}};
  for (const auto& [list, worlds] : lists) EXPECT_EQ(parse({"--cpus", list}).what.cpus, worlds) << list;
  EXPECT_EQ(parse({"--gpus", "1-3"}).what.gpus, (std::vector<int>{1, 2, 3}));
}

TEST(Options, RefusesInvalidRangesAndSequencesOfWorlds) {
  expect_contains(refusal({"--cpus", "8-1"}), {"--cpus", "'8-1'", "1-8"});
  expect_contains(refusal({"--cpus", "1-5000"}), {"'1-5000'"});
  for (const std::string list : {"1,2,..,8", "..,8", "1,2,4,..", "1,2,4,..,x"})
    expect_contains(refusal({"--cpus", list}), {"--cpus", "'" + list + "'", "three"});
  expect_contains(refusal({"--cpus", "1,2,5,..,8"}), {"'1,2,5,..,8'", "step", "factor"});
  expect_contains(refusal({"--cpus", "1,2,4,..,60"}), {"reach 60", "32", "64"});
  for (const std::string list : {"1-", "-3", "1--3", "0-2", "1-2-3", "1-2000"})
    expect_contains(refusal({"--cpus", list}), {"--cpus", "1 to 1024"});
}

TEST(Options, RefusesAFlagWithoutItsValue) { expect_contains(refusal({"--cpus"}), {"--cpus"}); }

TEST(Options, RefusesAnInvalidFilter) {
  expect_contains(refusal({"--filter", "ddp("}), {"--filter", "ddp(", "missing )"});
  expect_contains(refusal({"project", "run.json", "--filter", "^(?!cpu)"}), {"--filter", "lookahead", "'(?!cpu)'"});
}

TEST(Options, EveryHelpHasUsageTwoExamplesAndExitCodes) {
  for (const auto& command : commands()) {
    const std::string help = text_of({command.name, "--help"});
    EXPECT_NE(help.find("\nUsage: dpbench "), std::string::npos) << help;
    EXPECT_NE(help.find("\nExit codes:\n  0 "), std::string::npos) << help;
    EXPECT_GE(command.examples.size(), 2U) << command.name;
    for (const auto& example : command.examples)
      EXPECT_NE(help.find("\n  " + example_of(example)), std::string::npos) << help;
  }
}

TEST(Options, EveryExampleInTheHelpIsAccepted) {
  for (const auto& command : commands())
    for (const auto& example : command.examples) {
      std::string line = example.arguments.substr(0, example.arguments.find_first_of(">&"));
      while (line.ends_with(' ')) line.pop_back();
      const auto words = line.empty() ? std::vector<std::string>{} : split(line, ' ');
      EXPECT_NO_THROW(parse_command_line(commands(), words)) << line;
    }
}

TEST(Options, HelpShowsFlagsCommandsAndExitCodes) {
  const std::string help = text_of({"--help"});
  for (const auto& flag : flags_of("run")) EXPECT_NE(help.find(flag), std::string::npos) << flag;
  for (const auto& command : commands())
    EXPECT_NE(help.find("\n  " + command.name + " "), std::string::npos) << command.name;
  for (const std::string part : {"Usage:", "Examples:", "Exit codes:", "\n  3 ", "77"})
    EXPECT_NE(help.find(part), std::string::npos) << part;
  EXPECT_EQ(text_of({"run", "--help"}), help);
}

TEST(Options, HelpLinesExceptCommandsToCopyHaveAtMost100Columns) {
  for (const auto& command : commands())
    for (const auto& line : split(text_of({command.name, "--help"}), '\n'))
      EXPECT_TRUE(line.starts_with("  dpbench ") || display_width(line) <= 100u) << line;
}

TEST(Options, TheFirstScreenOfHelpShowsTheMainFlags) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"--help"}, {"run", "--help"}}) {
    auto lines = split(text_of(arguments), '\n');
    lines.resize(24);
    const std::string screen = "\n" + join(lines, "\n");
    for (const std::string part : {"Usage: dpbench", "\n  dpbench --strategy ddp --gpus", "\n  --strategy NAME,..",
                                   "[all]", "\n  --workload NAME,..", "\n  --gpus N,..", "\n  --cpus N,..", "[1,2 "})
      EXPECT_NE(screen.find(part), std::string::npos) << part << " in:" << screen;
  }
}

TEST(Options, BothVersionFlagsPrintTheProgramNameFirst) {
  EXPECT_TRUE(text_of({"--version"}).starts_with("dpbench "));
  EXPECT_EQ(text_of({"-V"}), text_of({"--version"}));
}

TEST_F(Config, FileSetsFlagsUnlessTheCommandLineSetsThemToo) {
  const auto file = write("strategy = [\"cpu\", \"ddp\"]\ncpus = [1, 2]\nlaunches = 7\nseed = 3\nbaseline = false\n");
  EXPECT_NE(refusal({"--config", file}).find("baseline"), std::string::npos);
  write("strategy = [\"cpu\", \"ddp\"]\ncpus = [1, 2]\nlaunches = 7\nseed = 3\nquick = true\n");
  const RunOptions o = parse({"--config", file, "--launches", "2"});
  EXPECT_EQ(o.what.strategies, (std::vector<std::string>{"cpu", "ddp"}));
  EXPECT_EQ(o.what.cpus, (std::vector<int>{1, 2}));
  EXPECT_EQ(o.launches, 2);
  EXPECT_EQ(o.what.seed, 3u);
  EXPECT_EQ(o.sampling.samples, 9);
}

TEST_F(Config, FileWithInvalidValuesFlagsOrSyntaxIsRefused) {
  const auto refused = [&](const std::string& text, std::vector<std::string> parts) {
    parts.insert(parts.end(), {"--config", file_});
    expect_contains(refusal({"--config", write(text)}), parts);
  };
  refused("seed = 1\ncpus = 0\n", {"line 2", "--cpus", "1 to 1024"});
  refused("cpus = \"1,,2\"\n", {"line 1", "--cpus", "1,2"});
  refused("cpus = [\n  1,\n  true,\n]\n", {"line 3", "'cpus'", "N,..", "boolean"});
  refused("\n# first\nstratgy = \"ddp\"\n", {"line 3", "'stratgy'", "'strategy'"});
  refused("max_time = 3\n", {"line 1", "'max_time'", "'max-time'"});
  refused("config = \"other.toml\"\n", {"line 1", "'config'"});
  refused("[check]\nseeds = 3\n", {"line 1", "'check'"});
  refused("[[[", {"line 1"});
  refused("\xC3\xA9 = 1\n", {"line 1"});
  refused("# first\nquick\n", {"line 2", "'='"});
  refused("strategy = ddp\n", {"line 1", "strategy = \"ddp\""});
  refused("strategy = [\"ddp\"\n", {"line 1", "array"});
  refused("seed = 1\nseed = 2\n", {"line 2", "'seed'"});
  refused("filter = \"cpu:\\d\"\n", {"line 1", "'\\d'"});
  refused("filter = 'cpu('\n", {"line 1", "--filter", "missing )"});
  refused("seed = 1\n\xff\xfe\n", {"utf-8"});
  refused(std::string("seed = 1\n\0\0\n", 12), {"line 2"});
  expect_contains(refusal({"--config", file_ + ".absent"}), {"--config", file_ + ".absent"});
  expect_contains(refusal({"--config", write(std::string((1 << 20) + 1, '#'))}), {"1 MiB"});
  expect_contains(refusal({"--config", "/dev"}), {"/dev"});
}

TEST_F(Config, AValueOfAnotherTypeThanTheFlagsIsRefused) {
  const std::vector<std::array<std::string, 3>> wrong = {{"quick = 1", "true or false", "integer"},
                                                         {"quick = \"yes\"", "true or false", "string"},
                                                         {"out = true", "DIR", "boolean"},
                                                         {"seed = { a = 1 }", "N", "table"},
                                                         {"cpus = [[1], [2]]", "N,..", "array"},
                                                         {"seed = [1, 2]", "N", "list of 2"},
                                                         {"strategy = []", "NAME,..", "empty"},
                                                         {"launches = 7.0", "1 to 1000", "7.0"},
                                                         {"launches = \"many\"", "1 to 1000", "'many'"}};
  for (const auto& [line, allowed, found] : wrong)
    expect_contains(refusal({"--config", write("# first\n" + line + "\n")}), {file_, "line 2", allowed, found});
}

TEST_F(Config, FileMayUseTheWholeSyntaxOfToml) {
  const RunOptions o = parse({"--config", write("strategy = [\n  'ddp', # a comment\n  \"\\u0063pu\",\n]\n"
                                                "\"seed\" = 0x10\nfilter = '''cpu:\\d'''\nmax-time = 1e2\n"
                                                "timeout = 2.5\nbatch = \"32,64\"\ncpus = [1, \"2-3\"]\n"
                                                "save-baseline = 2026-01-31\no = 'csv'\nquick = false\n")});
  EXPECT_EQ(o.what.strategies, (std::vector<std::string>{"ddp", "cpu"}));
  EXPECT_EQ(o.what.seed, 16u);
  EXPECT_EQ(o.what.filter, "cpu:\\d");
  EXPECT_EQ(o.sampling.max_time_s, 100);
  EXPECT_EQ(o.timeout_s, 2.5);
  EXPECT_EQ(o.what.batches, (std::vector<int64_t>{32, 64}));
  EXPECT_EQ(o.what.cpus, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(o.save_baseline, "2026-01-31");
  EXPECT_EQ(o.output, Form::csv);
  EXPECT_FALSE(o.quick);
}

TEST(Text, RemovesControlCharactersAndReplacesInvalidUtf8) {
  EXPECT_EQ(sanitised("\x1B[31mred\x1B[0m \x07\x80 né\xE2\x80\xAE!\xC2\x9B"), "red ? né!");
  EXPECT_EQ(sanitised("\xED\xA0\x80"), "???");
  EXPECT_EQ(one_line("a\nb\tc", 10), "a b c");
  EXPECT_EQ(one_line("ééééé", 3), "éé…");
}

TEST(Text, SuggestsForAMisspelledNameOnlySimilarNames) {
  EXPECT_EQ(nearest("mnist_mlp", {"random-linear", "mnist-mlp"}), "mnist-mlp");
  EXPECT_EQ(nearest("zzzzzz", {"random-linear", "mnist-mlp"}), "");
  EXPECT_EQ(nearest("dpd", {"cpu", "gpu", "ddp"}), "ddp");
  EXPECT_EQ(nearest("", {"cpu"}), "");
}

TEST(Text, SuggestsForPartOfANameTheWholeNameIgnoringCase) {
  const std::vector<std::string> workloads = {"random-linear", "mnist-mlp", "convnet", "all"};
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{{"mnist", "mnist-mlp"},
                                                                                     {"conv", "convnet"},
                                                                                     {"linear", "random-linear"},
                                                                                     {"MNIST-MLP", "mnist-mlp"},
                                                                                     {"mlp", "mnist-mlp"},
                                                                                     {"al", "all"},
                                                                                     {"convnets", "convnet"}})
    EXPECT_EQ(nearest(typed, workloads), meant) << typed;
  EXPECT_EQ(nearest("bucket", {"first_bucket_mb", "bucket_mb"}), "bucket_mb");
  EXPECT_EQ(nearest("strat", {"strict", "strategy"}), "strategy");
}

TEST(Text, SuggestsAStrategyIfItsNameInAnotherToolIsTyped) {
  const std::vector<std::string> strategies = {"dp", "ddp", "zero1", "zero2", "fsdp", "tp", "pp", "cp", "ep", "all"};
  using Names = std::vector<std::string>;
  const auto suggested = [&](const std::string& typed, const Names& known) {
    const std::string text = did_you_mean(typed, known);
    Names names;
    for (const std::string& name : strategies)
      if (text.find("'" + name + "'") != std::string::npos) names.push_back(name);
    return names;
  };
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, Names>>{{"tensor-parallel", {"tp"}},
                                                                               {"pipeline", {"pp"}},
                                                                               {"deepspeed", Names{"zero1", "zero2"}},
                                                                               {"zero", Names{"zero1", "zero2"}},
                                                                               {"fsdp2", {"fsdp"}},
                                                                               {"DistributedDataParallel", {"ddp"}},
                                                                               {"data_parallel", {"dp"}},
                                                                               {"context-parallel", {"cp"}},
                                                                               {"moe", {"ep"}},
                                                                               {"expert", {"ep"}}})
    EXPECT_EQ(suggested(typed, strategies), meant) << typed;
  EXPECT_EQ(suggested("deepspeed", {"zero2", "ddp"}), Names{"zero2"});
  EXPECT_EQ(did_you_mean("moe", {"ddp"}), "") << "no strategy ep in this catalogue";
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{{"float32", "f32"},
                                                                                     {"float", "f32"},
                                                                                     {"fp32", "f32"},
                                                                                     {"float64", "f64"},
                                                                                     {"double", "f64"},
                                                                                     {"bfloat16", "bf16"}})
    expect_contains(refusal({"--dtype", typed}), {"--dtype", "'" + meant + "'"});
}

TEST(Training, TrainCommandHasOneLaunchNoBaselineAndTheValuesOfItsFlags) {
  const auto options =
      parse<TrainingOptions>({"train", "--workload", "mnist-mlp", "--strategy", "ddp", "--cpus", "2", "--epochs", "3",
                              "--save", "m", "--checkpoint-every", "100", "--target-accuracy", "0.95", "--eval"});
  EXPECT_EQ(options.launches, 1);
  EXPECT_FALSE(options.what.baseline);
  EXPECT_EQ(options.training.epochs, 3);
  EXPECT_EQ(options.training.checkpoint_every, 100);
  EXPECT_EQ(options.training.target_accuracy, 0.95);
  EXPECT_TRUE(options.training.evaluate);
  EXPECT_FALSE(parse<TrainingOptions>({"train", "--workload", "w", "--strategy", "s"}).training.epochs)
      << "unset: the workload's default";
}

TEST(Training, RefusesMissingContradictingAndInvalidFlags) {
  const std::vector<std::string> one = {"train", "--workload", "mnist-mlp", "--strategy", "dp"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), one.begin(), one.end());
    return refusal(more);
  };
  expect_contains(refusal({"train", "--strategy", "dp"}), {"--strategy", "--workload", "dpbench train --workload"});
  expect_contains(refusal({"train", "--workload", "all", "--strategy", "dp"}), {"--strategy", "--workload"});
  expect_contains(with({"--checkpoint", "x"}), {"--checkpoint 'x'", "--checkpoint-every"});
  for (const char* same : {"x", "./x"})
    expect_contains(with({"--save", "x", "--checkpoint", same, "--checkpoint-every", "1"}),
                    {"--save", "--checkpoint", "'x'"});
  expect_contains(with({"--target-accuracy", "90"}), {"--target-accuracy", "'90'"});
  expect_contains(with({"--epochs", "0"}), {"--epochs", "'0'"});
  expect_contains(with({"--checkpoint-every", "0"}), {"--checkpoint-every", "'0'"});
  expect_contains(with({"--samples", "3"}), {"'--samples'", "dpbench train --help"});
}

}  // namespace
}  // namespace dpbench
