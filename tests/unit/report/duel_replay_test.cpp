// How often duel is right, on traces that were recorded (tests/traces/README.md).
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

// log(new / base) of every pair of every case, in the order in which they were taken.
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

constexpr int pairs_per_launch = 5;  // of the traces, as duel's own

// Windows that do not overlap: each is a duel, which takes as many pairs as it needs; the next begins after it. One
// that the trace's end cuts off does not count.
void replay(const Trace& trace, Replay& done) {
  for (size_t begin = 0; begin < trace.size();) {
    DuelLook look;
    for (int pairs = next_look(rule, 0); pairs > 0 && look.verdict == Verdict::unclear;
         pairs = next_look(rule, pairs)) {
      if (begin + static_cast<size_t>(pairs) > trace.size()) return;
      look = duel_look(std::span(trace).subspan(begin, static_cast<size_t>(pairs)), pairs / pairs_per_launch, rule, 1);
    }
    begin += static_cast<size_t>(look.pairs);
    done.pairs += look.pairs;
    ++done.windows;
    ++done.verdicts[look.verdict];
  }
}

Replay replay(const std::vector<std::string>& names) {
  Replay done;
  for (const auto& name : names)
    for (const Trace& trace : traces(name)) replay(trace, done);
  std::printf("%s: %d windows, %.1f pairs each; slower %d, faster %d, same %d, unclear %d\n", names[0].c_str(),
              done.windows, static_cast<double>(done.pairs) / done.windows, done.verdicts[Verdict::slower],
              done.verdicts[Verdict::faster], done.verdicts[Verdict::same], done.verdicts[Verdict::unclear]);
  return done;
}

TEST(DuelReplay, EqualBuildsAreCalledSlowerInOneWindowOfAHundredAtMost) {
  Replay done = replay({"equal", "equal-batches", "equal-more-batches", "equal-odd-batches", "equal-live"});
  EXPECT_GE(done.windows, 300);
  EXPECT_LE(done.share(Verdict::slower), 0.01);
  EXPECT_LE(done.share(Verdict::faster), 0.01);
  EXPECT_GE(done.share(Verdict::same), 0.9);
}

TEST(DuelReplay, ABuildThatIsFivePercentSlowerIsFound) {
  Replay done = replay({"slower-5"});
  EXPECT_GE(done.windows, 30);
  EXPECT_GE(done.share(Verdict::slower), 0.95);
  EXPECT_EQ(done.verdicts[Verdict::same], 0);
}

}  // namespace
}  // namespace dpbench
