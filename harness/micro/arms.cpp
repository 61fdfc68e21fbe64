// Compares the allreduce of each CPU backend with a plain memcpy. The compared variants (arms) alternate within one
// run, so that their ratios are reliable on a noisy machine. Times are medians on rank 0, with one thread per rank.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/micro/team.h"
#include "harness/report/stats/stats.h"

namespace dpbench::micro {
namespace {

using Clock = std::chrono::steady_clock;

void allreduce(const CommBackend& backend, const at::Tensor& tensor) {
  std::vector<at::Tensor> list{tensor};
  backend->allreduce(list, {})->wait();
}

void verify(const CommBackend& backend, int rank, int world, const at::Tensor& tensor) {
  tensor.fill_(rank + 1);
  allreduce(backend, tensor);
  TORCH_CHECK(tensor.eq(world * (world + 1) / 2).all().item<bool>(), backend->getBackendName(), " is wrong");
  tensor.zero_();
}

void run_arms(benchmark::State& state, Team& team, int world, int64_t bytes) {
  if (team.rank() >= world) {
    for ([[maybe_unused]] auto _ : state) continue;
    return;
  }
  const CommBackend shm = team.backend("shm", world), gloo = team.backend("gloo", world);
  const int64_t count = bytes / 4;
  const auto plain = at::empty(count), copy = at::empty(count);
  const auto shared = shm->allocateTensor(count, at::TensorOptions().dtype(at::kFloat));
  struct Arm {
    const char* name;
    const at::Tensor& tensor;
    std::function<void()> call;
  };
  const Arm arms[] = {{"gloo", plain, [&] { allreduce(gloo, plain); }},
                      {"shm", plain, [&] { allreduce(shm, plain); }},
                      {"shm_placed", shared, [&] { allreduce(shm, shared); }},
                      {"memcpy", plain,
                       [&] { std::memcpy(copy.data_ptr(), plain.data_ptr(), count * 4), benchmark::ClobberMemory(); }}};
  verify(gloo, team.rank(), world, plain), verify(shm, team.rank(), world, plain);
  verify(shm, team.rank(), world, shared), copy.zero_();
  std::map<std::string, std::vector<double>> times;
  for ([[maybe_unused]] auto _ : state)
    // Before each timed call, every rank writes its tensor, as a training step writes gradients before their allreduce.
    for (const auto& arm : arms) {
      arm.tensor.fill_(1);
      shm->barrier({})->wait();
      const auto begin = Clock::now();
      arm.call();
      times[arm.name].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  for (const auto& arm : arms) state.counters[std::string(arm.name) + "_us"] = median(times[arm.name]) * 1e6;
  const double by_shm = median(times["shm"]);
  state.counters["gloo/shm"] = median(times["gloo"]) / by_shm;
  state.counters["memcpy/shm"] = median(times["memcpy"]) / by_shm;
  state.counters["memcpy/placed"] = median(times["memcpy"]) / median(times["shm_placed"]);
}

}  // namespace

void add_arms(Team& team, int world) {
  for (const int64_t bytes : {4, 48, 4096, 65536, 407080, 4 << 20, 100'000'000})
    benchmark::RegisterBenchmark(
        ("allreduce_arms/" + std::to_string(bytes)).c_str(),
        [&team, world, bytes](benchmark::State& state) { run_arms(state, team, world, bytes); })
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(bytes > 10'000'000 ? 5 : 201);
}

}  // namespace dpbench::micro
