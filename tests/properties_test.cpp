// properties.md, and a list in results/README.md, are held to the truth: every number once, no unknown state, and every name in it a check or a test that runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "harness/conform/threads.h"

namespace dpbench {
namespace {

struct Property {
  int number = 0;
  std::string state;
  std::vector<std::string> names;   // in backquotes, of the last column
  std::vector<std::string> probes;  // named anywhere in it
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<Property> properties() {
  std::vector<Property> all;
  std::istringstream lines(text_of(DPBENCH_SOURCE "/tests/properties.md"));
  const std::regex row(R"(\| (\d+) \| [^|]+ \| (\w+) \| ([^|]+) \|)"), quoted("`([^`]+)`"), probe("probe-[a-z-]+");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    Property property{std::stoi(match[1]), match[2], {}, {}};
    const std::string last = match[3];
    for (std::sregex_iterator it(last.begin(), last.end(), quoted), end; it != end; ++it)
      property.names.push_back((*it)[1]);
    for (std::sregex_iterator it(last.begin(), last.end(), probe), end; it != end; ++it) property.probes.push_back(it->str());
    all.push_back(property);
  }
  return all;
}

// The checks that pass somewhere: one that is only ever skipped covers nothing.
std::set<std::string> checks_that_run() {
  struct Run {
    const char *strategy, *workload;
    int world;
  };
  std::set<std::string> names;
  for (const auto& [strategy, workload, world] :
       {Run{"ddp", "probe-mlp-sgd", 3}, Run{"ddp", "probe-batch-norm", 3}, Run{"ddp", "probe-exact", 3},
        Run{"ddp", "probe-mlp-sgd", 1}, Run{"dp", "probe-mlp-sgd", 3}, Run{"dp", "probe-frozen", 3},
        Run{"cpu", "probe-unused", 1}})
    for (const auto& row : check_in_threads({.strategy = strategy_registry().at(strategy),
                                             .workload = workload_registry().at(workload),
                                             .world = world}))
      if (row.status == "passed") names.insert(row.name);
  return names;
}

std::set<std::string> tests_that_exist() {
  std::set<std::string> names;
  const std::regex test(R"(TEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
  for (const auto& file : std::filesystem::directory_iterator(DPBENCH_SOURCE "/tests")) {
    if (file.path().extension() != ".cpp") continue;
    const std::string text = text_of(file.path());
    for (std::sregex_iterator it(text.begin(), text.end(), test), end; it != end; ++it)
      names.insert((*it)[1].str() + "." + (*it)[2].str());
  }
  return names;
}

std::set<std::string> variants_that_exist() {
  std::set<std::string> names;
  for (const auto& strategy : strategy_registry().all())
    for (const auto& variant : strategy.variants) names.insert(strategy.name + "+" + variant.name);
  return names;
}

TEST(Properties, AreAllThereOnceInOrder) {
  const auto all = properties();
  ASSERT_EQ(all.size(), 98U);
  for (int i = 0; i < 98; ++i) EXPECT_EQ(all[static_cast<size_t>(i)].number, i + 1);
}

TEST(Properties, AreCoveredOutOfScopeOrOpen) {
  for (const auto& property : properties()) {
    EXPECT_TRUE((std::set<std::string>{"covered", "out", "open"}.contains(property.state))) << property.number;
    EXPECT_TRUE(property.state != "covered" || !property.names.empty()) << property.number << " names no check";
  }
}

TEST(Properties, NameChecksThatRunAndTestsAndVariantsThatExist) {
  auto known = checks_that_run();
  known.merge(tests_that_exist());
  known.merge(variants_that_exist());
  for (const auto& property : properties())
    for (const auto& name : property.names) EXPECT_TRUE(known.contains(name)) << property.number << " names " << name;
}

TEST(Properties, NameProbesThatExist) {
  std::set<std::string> known;
  size_t named = 0;
  for (const auto& workload : workload_registry().all()) known.insert(workload.name);
  for (const auto& property : properties())
    for (const auto& name : property.probes) {
      EXPECT_TRUE(known.contains(name)) << property.number << " names " << name;
      ++named;
    }
  EXPECT_GE(named, 15U);
}

TEST(Readme, NamesTheCostlyScenariosAndNoOthers) {
  const std::string text = text_of(DPBENCH_SOURCE "/results/README.md"), before = "costly scenarios (";
  const size_t begin = text.find(before) + before.size();
  const std::string list = text.substr(begin, text.find(')', begin) - begin);
  const std::regex quoted("`([^`]+)`");
  std::set<std::string> named, costly;
  for (std::sregex_iterator it(list.begin(), list.end(), quoted), end; it != end; ++it) named.insert((*it)[1]);
  for (const auto& scenario : scenarios({Parallelism::ranks, 3, 4, 211}, at::kFloat, /*costly=*/true))
    if (scenario.costly) costly.insert(scenario.name);
  EXPECT_EQ(named, costly);
}

}  // namespace
}  // namespace dpbench
