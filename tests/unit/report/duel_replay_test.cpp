// How often `duel` (which times two builds alternately) gives a wrong verdict, measured on stored times of real builds
// (tests/traces/README.md).
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/report/judge/duel.h"

namespace dpbench {
namespace {

const DuelRule rule;

using Trace = std::vector<double>;

// Returns one trace per case: log(new time / base time) of every pair of timed blocks, in the order of measurement.
std::vector<Trace> traces(const std::string& name) {
  std::ifstream file(DPBENCH_SOURCE "/tests/traces/" + name + ".txt");
  std::string word;
  std::getline(file, word);
  EXPECT_TRUE(word.starts_with("# ")) << name;
  std::vector<Trace> all(1);
  while (file >> word)
    if (word == "end")
      all.emplace_back();
    else
      all.back().push_back(std::stod(word) * 1e-5);
  return all;
}

struct Replay {
  std::map<Verdict, int> verdicts;
  int windows = 0, pairs = 0;
  double share(Verdict verdict) { return static_cast<double>(verdicts[verdict]) / windows; }
};

// pairs of timed blocks after which the processes of the traces were restarted; duel has the same default
constexpr int pairs_per_launch = 5;

// Runs one duel after the other on the trace and adds their verdicts to `result`. Each duel takes as many pairs as it
// needs. A duel that reaches the end of the trace does not count.
void replay(const Trace& trace, Replay& result) {
  for (size_t begin = 0; begin < trace.size();) {
    DuelLook look;
    for (int pairs = next_look(rule, 0); pairs > 0 && look.verdict == Verdict::unclear;
         pairs = next_look(rule, pairs)) {
      if (begin + static_cast<size_t>(pairs) > trace.size()) return;
      look = duel_look(std::span(trace).subspan(begin, static_cast<size_t>(pairs)), pairs / pairs_per_launch, rule, 1);
    }
    begin += static_cast<size_t>(look.pairs);
    result.pairs += look.pairs;
    ++result.windows;
    ++result.verdicts[look.verdict];
  }
}

Replay replay(const std::vector<std::string>& names) {
  Replay result;
  for (const auto& name : names)
    for (const Trace& trace : traces(name)) replay(trace, result);
  std::printf("%s: %d windows, %.1f pairs each; slower %d, faster %d, same %d, unclear %d\n", names[0].c_str(),
              result.windows, static_cast<double>(result.pairs) / result.windows, result.verdicts[Verdict::slower],
              result.verdicts[Verdict::faster], result.verdicts[Verdict::same], result.verdicts[Verdict::unclear]);
  return result;
}

TEST(DuelOnRecordedTimes, RarelyCallsEqualBuildsSlowerOrFaster) {
  Replay result = replay({"equal", "equal-batches", "equal-more-batches", "equal-odd-batches", "equal-live"});
  EXPECT_GE(result.windows, 300);
  EXPECT_LE(result.share(Verdict::slower), 0.01);
  EXPECT_LE(result.share(Verdict::faster), 0.01);
  EXPECT_GE(result.share(Verdict::same), 0.9);
}

TEST(DuelOnRecordedTimes, CallsABuildThatIsFivePercentSlowerSlower) {
  Replay result = replay({"slower-5"});
  EXPECT_GE(result.windows, 30);
  EXPECT_GE(result.share(Verdict::slower), 0.95);
  EXPECT_EQ(result.verdicts[Verdict::same], 0);
}

}  // namespace
}  // namespace dpbench
