// Measures sends from each rank to each other rank while the remaining ranks wait: the bandwidth of large messages and
// the latency of small ones.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/micro/copy_rate.h"
#include "harness/micro/inputs.h"
#include "harness/micro/team.h"

namespace dpbench::micro {
namespace {

constexpr int64_t least_message = 4, most_message = 16 << 20;

struct Pair {
  std::string backend;
  int world, from, to;
  int64_t bytes;

  bool has(int rank) const { return rank == from || rank == to; }
};

at::Tensor new_message(const Team& team, int64_t bytes) {
  return at::zeros(bytes / 4, at::TensorOptions().dtype(at::kFloat).device(team.device()));
}

// Sends the message from `from` to `to`, which answers with a reply.
void round_trip(const Team& team, const Pair& pair, c10d::Backend& backend, const at::Tensor& message,
                const at::Tensor& reply) {
  std::vector<at::Tensor> there{message}, back{reply};
  if (team.rank() == pair.from) {
    backend.send(there, pair.to, 0)->wait();
    backend.recv(back, pair.to, 0)->wait();
  } else {
    backend.recv(there, pair.from, 0)->wait();
    team.synchronize();  // reply only after the message has arrived
    backend.send(back, pair.from, 0)->wait();
  }
  team.synchronize();
}

double wrong_elements(Team& team, const Pair& pair) {
  if (!pair.has(team.rank())) return 0;
  const at::Tensor message = new_message(team, pair.bytes);
  const at::Tensor sent = Inputs{.world = pair.world}.of(pair.from, 0, message.numel()).to(team.device());
  if (team.rank() == pair.from) message.copy_(sent);
  round_trip(team, pair, *team.backend(pair.backend, pair.world), message, new_message(team, least_message));
  return message.ne(sent).sum().item<double>();
}

// Returns the mean time of a round trip with messages of this size, the same on every rank. Every rank must call this
// function.
double seconds_of_round_trip(Team& team, const Pair& pair, int64_t bytes) {
  team.barrier();
  if (!pair.has(team.rank())) return team.sum(0);
  const CommBackend backend = team.backend(pair.backend, pair.world);
  const at::Tensor message = new_message(team, bytes), reply = new_message(team, least_message);
  round_trip(team, pair, *backend, message, reply);
  const int64_t trips = iterations_of(bytes);
  const double seconds = seconds_of([&] {
    for (int64_t i = 0; i < trips; ++i) round_trip(team, pair, *backend, message, reply);
  });
  return team.sum(team.rank() == pair.from ? seconds / static_cast<double>(trips) : 0);
}

void run_pair(benchmark::State& state, Team& team, const Pair& pair) {
  // All ranks of the world must create the backend together.
  if (team.rank() < pair.world) team.backend(pair.backend, pair.world);
  const Verified verified = team.verify([&] { return wrong_elements(team, pair); });
  if (!verified.error.empty()) return state.SkipWithError(verified.error.c_str());
  const double latency = seconds_of_round_trip(team, pair, least_message) / 2;
  const double copy = copy_gb_s(team, pair.has(team.rank()), 2, pair.bytes);
  const double seconds = seconds_of_round_trip(team, pair, pair.bytes);
  const double bandwidth = static_cast<double>(pair.bytes) / seconds * 1e-9;
  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(seconds);
  state.SetLabel(team.host(pair.from) + " to " + team.host(pair.to));
  state.counters["bytes"] = static_cast<double>(pair.bytes);
  state.counters["latency_us"] = latency * 1e6;
  state.counters["bandwidth_gb_s"] = bandwidth;
  state.counters["copy_gb_s"] = copy;
  state.counters["of_copy"] = bandwidth / copy;
  state.counters["wrong"] = verified.wrong;
}

void add_pair(Team& team, const Pair& pair) {
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
