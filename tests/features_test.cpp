// features.md is held to the truth: its variants, wrong variants, measured rows and tests are all there, none of them missing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "strategies/strategy.h"

namespace dpbench {
namespace {

using FeatureNames = std::set<std::string>;

std::string whole_text(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

FeatureNames found_in(const std::string& folder, const std::regex& pattern, const std::string& between = "") {
  FeatureNames names;
  for (const auto& file : std::filesystem::directory_iterator(DPBENCH_SOURCE "/" + folder)) {
    if (file.path().extension() != ".cpp" && file.path().extension() != ".md") continue;
    const std::string text = whole_text(file.path());
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
      names.insert((*it)[1].str() + (it->size() > 2 ? between + (*it)[2].str() : ""));
  }
  return names;
}

FeatureNames quoted_in(const std::string& cell) {
  FeatureNames names;
  const std::regex quoted("`([^`]+)`");
  for (std::sregex_iterator it(cell.begin(), cell.end(), quoted), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

struct Feature {
  std::string name;
  FeatureNames variants, wrong, measured, bad_input;
  bool unmeasured = false;  // and the table says why
};

std::vector<Feature> features() {
  std::vector<Feature> all;
  std::istringstream lines(whole_text(DPBENCH_SOURCE "/tests/features.md"));
  const std::regex row(R"(\| ([^|]+) \| (`[^|]+) \| (`[^|]+) \| ([^|]+) \| (`[^|]+) \|)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row))
      all.push_back({match[1], quoted_in(match[2]), quoted_in(match[3]), quoted_in(match[4]), quoted_in(match[5]), match[4].str().starts_with("none: ")});
  }
  return all;
}

FeatureNames tests_there_are() { return found_in("tests", std::regex(R"(TEST(?:_F|_P)?\((\w+),\s*(\w+)\))"), "."); }

FeatureNames variants_there_are() {
  FeatureNames names;
  for (const auto& strategy : strategy_registry().all()) {
    names.insert(strategy.name);
    for (const auto& variant : strategy.variants) names.insert(strategy.name + "+" + variant.name);
  }
  return names;
}

void expect_known(const Feature& feature, const FeatureNames& wanted, const FeatureNames& known, size_t at_least) {
  EXPECT_GE(wanted.size(), at_least) << feature.name;
  for (const auto& name : wanted) EXPECT_TRUE(known.contains(name)) << feature.name << ": there is no " << name;
}

TEST(Features, AreEachCheckedTwiceWrongMeasuredAndRefused) {
  const auto all = features();
  EXPECT_EQ(all.size(), 19U);
  auto variants = variants_there_are();
  variants.merge(tests_there_are());
  const auto wrong = found_in("tests/wrong_strategies", std::regex(R"re(\{"([a-z0-9A-Z-]+)",\s+"[a-z])re"));
  const auto measured = found_in("results", std::regex(R"(\n\| ([^|]+) \|)"));
  for (const Feature& feature : all) {
    expect_known(feature, feature.variants, variants, 1);
    expect_known(feature, feature.wrong, wrong, 2);
    expect_known(feature, feature.measured, measured, feature.unmeasured ? 0 : 1);
    expect_known(feature, feature.bad_input, tests_there_are(), 1);
  }
}

// A parameter that nobody has put into the table is one that nobody has thought about.
TEST(Features, CoverEveryVariant) {
  FeatureNames named;
  for (const Feature& feature : features()) named.insert(feature.variants.begin(), feature.variants.end());
  for (const char* name : {"ddp", "zero1", "local-sgd"})
    for (const auto& variant : strategy_registry().at(name).variants)
      EXPECT_TRUE(named.contains(std::string(name) + "+" + variant.name)) << name << '+' << variant.name;
}

}  // namespace
}  // namespace dpbench
