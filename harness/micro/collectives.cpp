// Verifies and then times each collective by backend, world (number of ranks) and size. Bandwidths are defined as in
// nccl-tests: algorithm bandwidth is size / time; bus bandwidth is algorithm bandwidth times the number of bytes that
// the busiest link carries for each byte of the size.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "harness/micro/team.h"
#include "strategies/api/backend.h"

namespace dpbench::micro {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Buffers {
  at::Tensor input, output;  // input and output are the same tensor if the collective works in place
};

// A collective to measure. The parameter `all` of its functions is the number of elements of the whole tensor: for
// reduce_scatter the input, for allgather the output, else either. The printed size is that of the whole tensor.
struct Collective {
  const char* name;
  bool in_parts;  // true if each rank receives or sends one of `world` equal parts of the tensor
  double (*bus_share)(double world);
  Buffers (*buffers)(int64_t all, int world, at::Device device);
  void (*call)(c10d::Backend& backend, Buffers& buffers);
  at::Tensor (*expected)(int64_t all, int world, int rank);
};

// Returns the input tensor of a rank. Values differ by rank and by position (modulo 61), and are small enough for exact
// sums.
at::Tensor input_of(int64_t count, int64_t from, int rank) {
  return (at::arange(from, from + count, at::kLong).remainder_(61).add_(1)).mul_(rank + 1).to(at::kFloat);
}

at::Tensor sum_of_inputs(int64_t count, int64_t from, int world) {
  return input_of(count, from, 0).mul_(world * (world + 1) / 2);
}

void finish(const c10::intrusive_ptr<c10d::Work>& work) { work->wait(); }

// Runs a collective and waits until its outputs are complete. On a GPU, work->wait() only orders the stream, so this
// function also synchronizes the stream.
void call_and_wait(const Collective& collective, c10d::Backend& backend, Buffers& buffers) {
  collective.call(backend, buffers);
  const at::Device device = buffers.output.device();
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

const Collective collectives[] = {
    {"allreduce", false, [](double n) { return 2 * (n - 1) / n; },
     [](int64_t all, int, at::Device device) {
       const at::Tensor tensor = at::empty(all, device);
       return Buffers{tensor, tensor};
     },
     [](c10d::Backend& backend, Buffers& b) {
       Tensors tensors{b.input};
       finish(backend.allreduce(tensors, {}));
     },
     [](int64_t all, int world, int) { return sum_of_inputs(all, 0, world); }},
    {"reduce_scatter", true, [](double n) { return (n - 1) / n; },
     [](int64_t all, int world, at::Device device) {
       return Buffers{at::empty(all, device), at::empty(all / world, device)};
     },
     [](c10d::Backend& backend, Buffers& b) { finish(backend._reduce_scatter_base(b.output, b.input, {})); },
     [](int64_t all, int world, int rank) { return sum_of_inputs(all / world, rank * (all / world), world); }},
    {"allgather", true, [](double n) { return (n - 1) / n; },
     [](int64_t all, int world, at::Device device) {
       return Buffers{at::empty(all / world, device), at::empty(all, device)};
     },
     [](c10d::Backend& backend, Buffers& b) { finish(backend._allgather_base(b.output, b.input, {})); },
     [](int64_t all, int world, int) {
       Tensors parts;
       for (int rank = 0; rank < world; ++rank) parts.push_back(input_of(all / world, 0, rank));
       return at::cat(parts);
     }},
    {"broadcast", false, [](double) { return 1.0; },
     [](int64_t all, int, at::Device device) {
       const at::Tensor tensor = at::empty(all, device);
       return Buffers{tensor, tensor};
     },
     [](c10d::Backend& backend, Buffers& b) {
       Tensors tensors{b.input};
       finish(backend.broadcast(tensors, {}));
     },
     [](int64_t all, int, int) { return input_of(all, 0, 0); }},
};

struct Point {
  const Collective* collective;
  std::string backend;
  int world;
  int64_t bytes;
};

// Returns the number of float elements of a tensor of this size, rounded down to a multiple of the world if the
// collective works in parts (0 if the parts would be empty).
int64_t elements_of(const Collective& collective, int world, int64_t bytes) {
  return collective.in_parts ? bytes / 4 / world * world : bytes / 4;
}

// Returns the number of timed iterations. It depends only on the size, so that all ranks use the same number.
int64_t iterations_of(int64_t bytes) { return std::clamp<int64_t>((64 << 20) / bytes, 5, 200); }

// Runs a collective once and returns the number of wrong output elements over all ranks. If the backend throws, the
// number is above 0, and `error` is set on the rank where it threw.
double wrong_elements(Team& team, const Point& point, Buffers& buffers, int64_t all, std::string& error) {
  double wrong = 0;
  if (buffers.input.defined()) {
    const CommBackend backend = team.backend(point.backend, point.world);
    buffers.input.copy_(input_of(buffers.input.numel(), 0, team.rank()));
    try {
      call_and_wait(*point.collective, *backend, buffers);
      const auto expected = point.collective->expected(all, point.world, team.rank()).to(team.device());
      wrong = buffers.output.ne(expected).sum().item<double>();
    } catch (const c10::Error& thrown) {
      error = thrown.what_without_backtrace();
      wrong = 1;
    }
  }
  return team.sum(wrong);
}

void run_point(benchmark::State& state, Team& team, const Point& point) {
  const int64_t all = elements_of(*point.collective, point.world, point.bytes);
  const bool member = team.rank() < point.world;
  Buffers buffers = member ? point.collective->buffers(all, point.world, team.device()) : Buffers{};
  std::string error;
  if (const double wrong = wrong_elements(team, point, buffers, all, error); wrong > 0) {
    team.failed = true;
    if (error.empty()) error = std::to_string(static_cast<int64_t>(wrong)) + " wrong elements";
    return state.SkipWithError(error.c_str());
  }
  if (member) {
    buffers.input.zero_();  // Time the collective with zeros: repeated allreduces of other values would overflow.
    for (int i = 0; i < 3; ++i) call_and_wait(*point.collective, *team.backend(point.backend, point.world), buffers);
  }
  team.barrier();
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  const CommBackend backend = member ? team.backend(point.backend, point.world) : nullptr;
  for ([[maybe_unused]] auto _ : state) {
    const auto begin = Clock::now();
    if (member) call_and_wait(*point.collective, *backend, buffers);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    state.SetIterationTime(seconds.back());
  }
  double own_mean = 0;
  for (const double one : seconds) own_mean += one / static_cast<double>(seconds.size());
  const double mean = team.sum(member ? own_mean : 0) / point.world;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2), seconds.end());
  const double size = static_cast<double>(all) * 4;
  state.counters["bytes"] = size;
  state.counters["time_us"] = mean * 1e6;
  state.counters["median_us"] = seconds[seconds.size() / 2] * 1e6;
  state.counters["algbw_gb_s"] = size / mean * 1e-9;
  state.counters["busbw_gb_s"] = size / mean * 1e-9 * point.collective->bus_share(point.world);
  state.counters["wrong"] = 0;
}

}  // namespace

void add_collectives(Team& team, const MicroOptions& asked) {
  for (const std::string& backend : asked.backends)
    for (const int world : asked.worlds)
      for (const Collective& collective : collectives)
        for (int64_t bytes = asked.least_bytes; bytes <= asked.most_bytes; bytes *= asked.factor) {
          if (elements_of(collective, world, bytes) == 0) continue;
          const std::string name = std::string(collective.name) + "/backend:" + backend +
                                   "/world:" + std::to_string(world) + "/bytes:" + std::to_string(bytes);
          const Point point{&collective, backend, world, bytes};
          benchmark::RegisterBenchmark(name.c_str(),
                                       [&team, point](benchmark::State& state) { run_point(state, team, point); })
              ->Iterations(iterations_of(bytes))
              ->UseManualTime()
              ->Unit(benchmark::kMicrosecond);
        }
}

}  // namespace dpbench::micro
