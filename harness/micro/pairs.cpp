// Measures sends from each rank to each other rank while the remaining ranks wait: the bandwidth of large messages and
// the latency of small ones.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "harness/micro/ceilings/ceilings.h"
#include "harness/micro/team.h"

namespace dpbench::micro {
namespace {

void run_pair(benchmark::State& state, Team& team, const RankPair& pair) {
  if (team.rank() < pair.world) team.backend(pair.backend, pair.world);  // creates the backend, on all ranks together
  const Verified verified = team.verify([&] { return wrong_elements(team, pair); });
  if (!verified.error.empty()) return state.SkipWithError(verified.error.c_str());
  const double latency = seconds_of_round_trip(team, pair, least_message) / 2;
  // The bound of the bandwidth is the rate of the link between the ranks, or of a memory copy if there is no link.
  const double link = link_gb_s(team, pair.from, pair.to);
  const bool copies = link == 0 && team.share_host(pair.from, pair.to);
  const double copy = copies ? copy_gb_s(team, pair.has(team.rank()), 2, pair.bytes) : 0;
  const double seconds = seconds_of_round_trip(team, pair, pair.bytes);
  const double bandwidth = static_cast<double>(pair.bytes) / seconds * 1e-9;
  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(seconds);
  state.SetLabel(team.host(pair.from) + " to " + team.host(pair.to));
  state.counters["bytes"] = static_cast<double>(pair.bytes);
  state.counters["latency_us"] = latency * 1e6;
  state.counters["bandwidth_gb_s"] = bandwidth;
  state.counters["wrong"] = verified.wrong;
  if (link > 0) {
    state.counters["link_gb_s"] = link;
    state.counters["of_link"] = bandwidth / link;
  }
  if (copy > 0) {
    state.counters["copy_gb_s"] = copy;
    state.counters["of_copy"] = bandwidth / copy;
  }
}

void add_pair(Team& team, const RankPair& pair) {
  const std::string name = "pairs/backend:" + pair.backend + "/world:" + std::to_string(pair.world) +
                           "/from:" + std::to_string(pair.from) + "/to:" + std::to_string(pair.to) +
                           "/bytes:" + std::to_string(pair.bytes);
  benchmark::RegisterBenchmark(name.c_str(), [&team, pair](benchmark::State& state) { run_pair(state, team, pair); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

void add_pairs(Team& team, const CollectivesOptions& asked) {
  const int64_t bytes = std::min(asked.most_bytes, most_message) / least_message * least_message;
  for (const std::string& backend : asked.backends)
    for (const int world : asked.worlds)
      for (int from = 0; from < world; ++from)
        for (int to = 0; to < world; ++to)
          if (from != to) add_pair(team, {backend, world, from, to, bytes});
}

}  // namespace dpbench::micro
