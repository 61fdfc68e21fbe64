// Verifies and then times each collective by backend, world (number of ranks), type, reduction and size. Bandwidths are
// defined as in nccl-tests: algorithm bandwidth is size / time; bus bandwidth is algorithm bandwidth times the number
// of bytes that the busiest link carries for each byte of the size.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "harness/micro/ceilings/ceilings.h"
#include "harness/micro/collective.h"
#include "harness/micro/team.h"
#include "harness/report/stats/stats.h"

namespace dpbench::micro {
namespace {

struct Point {
  const Collective* collective;
  std::string backend;
  Inputs inputs;
  bool in_place;
  int64_t bytes;

  int64_t item_bytes() const { return static_cast<int64_t>(c10::elementSize(element_type(inputs.dtype).scalar)); }
  // Number of elements of the whole tensor. If each rank has a part of it, the number is rounded down to a multiple of
  // the world (0 if the parts would be empty).
  int64_t elements() const {
    const int64_t all = bytes / item_bytes();
    return collective->in_parts ? all / inputs.world * inputs.world : all;
  }
};

// Returns the benchmark's name. Default values are left out, so that existing names stay the same when an option is
// added.
std::string benchmark_name(const Point& point) {
  const Inputs& inputs = point.inputs;
  std::string name =
      name_of(point.collective->name) + "/backend:" + point.backend + "/world:" + std::to_string(inputs.world);
  if (inputs.dtype != ElementName::f32) name += "/dtype:" + inputs.dtype;
  if (inputs.op != ReductionName::sum) name += "/op:" + inputs.op;
  if (point.in_place) name += "/in-place";
  return name + "/bytes:" + std::to_string(point.bytes);
}

// Runs a collective and waits until its outputs are complete. On a GPU, the backend's wait() blocks only the stream,
// not the host.
void call_and_wait(const Team& team, const Point& point, Call& call) {
  point.collective->start_and_wait(call);
  team.synchronize();
}

double wrong_elements(const Team& team, const Point& point, Call& call) {
  call.output.zero_();  // inputs have no zeros, so an output that is not written counts as wrong
  call.input.copy_(point.inputs.of(team.rank(), 0, call.input.numel()));
  call_and_wait(team, point, call);
  const at::Tensor expected = point.collective->expected(point.inputs, point.elements(), team.rank());
  return expected.defined() ? call.output.ne(expected.to(team.device())).sum().item<double>() : 0;
}

// Times the collective on zeros, because repeated sums of other values would overflow. Returns the time in seconds of
// each call.
std::vector<double> timed_calls(benchmark::State& state, Team& team, const Point& point, std::optional<Call>& call) {
  if (call) {
    call->input.zero_();
    for (int i = 0; i < 3; ++i) call_and_wait(team, point, *call);
  }
  team.barrier();
  std::vector<double> seconds;
  for ([[maybe_unused]] auto _ : state) {
    seconds.push_back(call ? seconds_of([&] { call_and_wait(team, point, *call); }) : 0);
    state.SetIterationTime(seconds.back());
  }
  return seconds;
}

void run_point(benchmark::State& state, Team& team, const Point& point) {
  const int world = point.inputs.world;
  const bool member = team.rank() < world, has_data = point.bytes > 0;
  const int64_t all = point.elements(), size = all * point.item_bytes();
  std::optional<Call> call;
  if (member)
    call = new_call(*point.collective, point.inputs, all, point.in_place, team.backend(point.backend, world),
                    team.device());
  const Verified verified = team.verify([&] { return call ? wrong_elements(team, point, *call) : 0; });
  if (!verified.error.empty()) return state.SkipWithError(verified.error.c_str());
  const double copy = has_data ? copy_gb_s(team, member, world, size) : 0;
  const double link = has_data ? slowest_link_gb_s(team, world) : 0;
  const std::vector<double> seconds = timed_calls(state, team, point, call);
  const double own_mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const double mean = team.sum(own_mean) / world, rate = static_cast<double>(size) / mean * 1e-9;
  state.counters["bytes"] = static_cast<double>(size);
  state.counters["count"] = static_cast<double>(point.collective->in_parts ? all / world : all);
  state.counters["time_us"] = mean * 1e6;
  state.counters["median_us"] = median(seconds) * 1e6;
  state.counters["algbw_gb_s"] = rate;
  state.counters["busbw_gb_s"] = rate * point.collective->bus_share(world);
  if (!has_data) return;
  state.counters["copy_gb_s"] = copy;
  state.counters["of_copy"] = rate * point.collective->bus_share(world) / copy;
  state.counters["wrong"] = verified.wrong;
  if (link == 0) return;
  state.counters["link_gb_s"] = link;
  state.counters["of_link"] = rate * point.collective->bus_share(world) / link;
}

// Returns the combinations of type, reduction and placement (in place or not) of a collective to measure.
std::vector<Point> variants_of(const Collective& collective, const CollectivesOptions& asked) {
  const bool has_data = collective.name != CollectiveName::barrier;
  std::vector<Point> variants;
  for (const ElementName dtype : has_data ? asked.dtypes : std::vector{ElementName::f32})
    for (const ReductionName op : collective.reduces ? asked.ops : std::vector{ReductionName::sum})
      for (const bool in_place : {false, true})
        if (!in_place || (asked.in_place && collective.has_in_place()))
          variants.push_back({&collective, "", {.dtype = dtype, .op = op}, in_place, 0});
  return variants;
}

void add_point(Team& team, const Point& point) {
  benchmark::RegisterBenchmark(benchmark_name(point).c_str(),
                               [&team, point](benchmark::State& state) { run_point(state, team, point); })
      ->Iterations(iterations_of(point.bytes))
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

void add_sizes(Team& team, const CollectivesOptions& asked, Point point) {
  if (point.collective->name == CollectiveName::barrier) return add_point(team, point);
  for (point.bytes = asked.least_bytes; point.bytes <= asked.most_bytes; point.bytes *= asked.factor)
    if (point.elements() > 0) add_point(team, point);
}

}  // namespace

void add_collectives(Team& team, const CollectivesOptions& asked) {
  for (const std::string& backend : asked.backends)
    for (const int world : asked.worlds)
      for (const CollectiveName name : asked.collectives) {
        // Skip sendrecv with one rank, which has no other rank to send to.
        if (name == CollectiveName::sendrecv && world == 1) continue;
        for (Point point : variants_of(collective_of(name), asked)) {
          point.backend = backend;
          point.inputs.world = world;
          add_sizes(team, asked, point);
        }
      }
}

}  // namespace dpbench::micro
