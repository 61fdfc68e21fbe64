// Allreduce by each CPU backend, and what copying alone would cost: the arms alternate within one run, so that their
// ratios hold on a noisy machine. World 2, or DPBENCH_MICRO_WORLD. Times are rank 0's, medians of one thread a rank.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "harness/report/environment.h"
#include "harness/report/tool.h"
#include "strategies/comm/backend.h"

namespace dpbench {
namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

struct Rank {
  int rank, world;
  Backend shm, gloo;
};
Rank self;

Backend make(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, int rank, int world) {
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name, store);
  return backend_registry().at(name).make({prefixed, rank, world, rank, world, at::kCPU, std::chrono::seconds(60), ""});
}

// All ranks have met and written their tensors, as a backward does, when the clock starts.
template <class Call>
double time_of(const at::Tensor& tensor, Call call) {
  tensor.fill_(1);
  self.shm->barrier({})->wait();
  const auto begin = Clock::now();
  call();
  return Seconds(Clock::now() - begin).count();
}

void allreduce(const Backend& backend, const at::Tensor& tensor) {
  std::vector<at::Tensor> list{tensor};
  backend->allreduce(list, {})->wait();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void verify(const Backend& backend, const at::Tensor& tensor) {
  tensor.fill_(self.rank + 1);
  allreduce(backend, tensor);
  TORCH_CHECK(tensor.eq(self.world * (self.world + 1) / 2).all().item<bool>(), backend->getBackendName(), " is wrong");
  tensor.zero_();
}

void allreduce_arms(benchmark::State& state) {
  const int64_t count = state.range(0) / 4;
  const auto plain = at::empty(count), copy = at::empty(count);
  const auto shared = self.shm->allocateTensor(count, at::TensorOptions().dtype(at::kFloat));
  struct Arm {
    const char* name;
    const at::Tensor& tensor;
    std::function<void()> call;
  };
  const Arm arms[] = {{"gloo", plain, [&] { allreduce(self.gloo, plain); }},
                      {"shm", plain, [&] { allreduce(self.shm, plain); }},
                      {"shm_placed", shared, [&] { allreduce(self.shm, shared); }},
                      {"memcpy", plain,
                       [&] { std::memcpy(copy.data_ptr(), plain.data_ptr(), count * 4), benchmark::ClobberMemory(); }}};
  verify(self.gloo, plain), verify(self.shm, plain), verify(self.shm, shared), copy.zero_();
  std::map<std::string, std::vector<double>> times;
  for (auto _ : state)
    for (const auto& arm : arms) times[arm.name].push_back(time_of(arm.tensor, arm.call));
  for (const auto& arm : arms) state.counters[std::string(arm.name) + "_us"] = median(times[arm.name]) * 1e6;
  const double shm = median(times["shm"]);
  state.counters["gloo/shm"] = median(times["gloo"]) / shm;
  state.counters["memcpy/shm"] = median(times["memcpy"]) / shm;
  state.counters["memcpy/placed"] = median(times["memcpy"]) / median(times["shm_placed"]);
}
BENCHMARK(allreduce_arms)->Arg(4)->Arg(48)->Arg(4096)->Arg(65536)->Arg(407080)->Arg(4 << 20)->Iterations(201);
BENCHMARK(allreduce_arms)->Arg(100'000'000)->Iterations(5);

class Silent : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Every rank runs the same list with the same numbers of iterations; rank 0 reports.
int run_rank(int rank, int world, const std::string& file) {
  at::set_num_threads(1);
  const auto store = c10::make_intrusive<c10d::FileStore>(file, world);
  self = {rank, world, make("shm", store, rank, world), make("gloo", store, rank, world)};
  benchmark::AddCustomContext("world", std::to_string(world));
  benchmark::AddCustomContext("machine", machine_label(environment(this_machine(), {}, {})));
  benchmark::AddCustomContext("commit", built_commit());
  Silent silent;
  rank == 0 ? benchmark::RunSpecifiedBenchmarks() : benchmark::RunSpecifiedBenchmarks(&silent);
  self.shm->barrier({})->wait();
  self = {};
  return 0;
}

}  // namespace
}  // namespace dpbench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const char* const wanted = std::getenv("DPBENCH_MICRO_WORLD");
  const int world = wanted ? std::max(1, std::atoi(wanted)) : 2;
  std::string directory = std::filesystem::temp_directory_path() / "dpbench-micro-XXXXXX";
  if (!mkdtemp(directory.data())) return 5;
  int failed = 0;
  for (int rank = 1; rank < world; ++rank)
    if (fork() == 0) _exit(dpbench::run_rank(rank, world, directory + "/store"));
  failed = dpbench::run_rank(0, world, directory + "/store");
  for (int status; wait(&status) > 0;) failed |= status;
  std::filesystem::remove_all(directory);
  return failed ? 3 : 0;
}
