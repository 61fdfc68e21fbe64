// dpbench-micro: micro-benchmarks of collectives by backend, world, type and size, and of the code around them, on
// Google Benchmark. `dpbench collectives` runs it for the collectives alone.
#include <benchmark/benchmark.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <torch/cuda.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/micro/command_line.h"
#include "harness/micro/table.h"
#include "harness/micro/team.h"
#include "harness/report/machine/environment.h"
#include "harness/report/machine/tool.h"
#include "harness/worker/rank/host_memory.h"
#include "harness/worker/rank/rendezvous.h"
#include "harness/worker/rank/variables.h"
#include "strategies/api/backend.h"
#include "workloads/base/error.h"

namespace dpbench::micro {
namespace {

class SilentReporter : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Checks early that the --benchmark_out file can be written. Google Benchmark would exit with code 1, which in
// dpbench-micro means a wrong collective.
void require_writable(const CommandLine& line) {
  constexpr std::string_view flag = "--benchmark_out=";
  for (const std::string& word : line.passed_on)
    if (word.starts_with(flag) && word.size() > flag.size())
      if (!std::ofstream(word.substr(flag.size()), std::ios::app))
        throw UsageError("--benchmark_out: '" + word.substr(flag.size(), 200) +
                         "' cannot be written: " + std::strerror(errno));
}

// Initializes Google Benchmark on a rank. Only rank 0 gets the flags that write files.
void initialize(const CommandLine& line, int rank) {
  // `words` is static, because Google Benchmark keeps a pointer to the program name.
  static std::vector<std::string> words{"dpbench-micro"};
  for (const std::string& word : line.passed_on)
    if (rank == 0 || !word.starts_with("--benchmark_out")) words.push_back(word);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) throw UsageError("unknown flag of Google Benchmark: " + std::string(pointers[1]));
}

void add_context(const CollectivesOptions& asked) {
  std::string worlds;
  for (const int world : asked.worlds) worlds += (worlds.empty() ? "" : ", ") + std::to_string(world);
  benchmark::AddCustomContext("world", worlds);
  benchmark::AddCustomContext("device", asked.cuda ? "cuda" : "cpu");
  benchmark::AddCustomContext("machine", machine_label(environment(this_machine(), {}, {})));
  benchmark::AddCustomContext("commit", built_commit());
}

// Returns the device of a rank. With --device cuda, the rank with index r on its host uses GPU r modulo the number of
// GPUs. Throws UsageError if ranks would share a GPU and their backend does not allow it. Called only after the fork,
// because this function initialises CUDA.
at::Device device_of(const CollectivesOptions& asked, const Seat& seat) {
  if (!asked.cuda) return at::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0) throw Unavailable("--device cuda: this machine has no GPU. Use --device cpu");
  for (const int world : asked.worlds)
    for (const std::string& name : asked.backends)
      if (std::min(world, seat.local_ranks) > gpus && !backend_registry().at(name).shares_device)
        throw UsageError("--world " + std::to_string(world) + ": " + name +
                         " needs a GPU for each rank, and this machine has " + std::to_string(gpus) +
                         ". Use another --backend");
  return {at::kCUDA, static_cast<c10::DeviceIndex>(seat.local_rank % gpus)};
}

void add_all(Team& team, const CommandLine& line) {
  const CollectivesOptions& asked = line.asked;
  if (asked.pairs) return add_pairs(team, asked);
  add_collectives(team, asked);
  if (!line.others) return;
  const auto has_backend = [&](const char* name) {
    return std::find(asked.backends.begin(), asked.backends.end(), name) != asked.backends.end();
  };
  if (has_backend("shm") && has_backend("gloo")) add_arms(team, asked.worlds.front());
  add_parts(team);
  add_by_hand(team);
  add_limit(team);
  add_calls(team);
}

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Runs the registered benchmarks and returns their number. Only rank 0 prints.
size_t run_benchmarks(const Team& team, const CommandLine& line, int ranks) {
  SilentReporter silent;
  if (team.rank() > 0) return benchmark::RunSpecifiedBenchmarks(&silent);
  if (line.has("--benchmark_format")) return benchmark::RunSpecifiedBenchmarks();
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(team.host(rank));
  return benchmark::RunSpecifiedBenchmarks(table_reporter(std::cout, hosts).get());
}

// Runs all benchmarks as one rank and returns its exit code.
int run_rank(const CommandLine& line, const Seat& seat, const std::function<StorePtr()>& open_store) {
  try {
    initialize(line, seat.rank);
    at::set_num_threads(1);
    const at::Device device = device_of(line.asked, seat);
    const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
    Team team(seat, open_store(), device);
    add_all(team, line);
    add_context(line.asked);
    const size_t ran = run_benchmarks(team, line, seat.ranks);
    team.barrier();
    if (ran == 0) throw UsageError("no benchmark matches --benchmark_filter");
    if (seat.rank == 0 && !std::cout.flush()) return 5;
    if (team.failed) return 1;
    return team.unsupported && !team.worked ? 77 : 0;
  } catch (const UsageError& error) {
    if (seat.rank == 0) std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 2;
  } catch (const Unavailable& error) {
    if (seat.rank == 0) std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 77;
  } catch (const std::exception& error) {
    std::cerr << "dpbench-micro: rank " << seat.rank << ": " << std::string(error.what()).substr(0, 300) << '\n';
    return 3;
  }
}

// Runs as one rank under an outside launcher such as torchrun. `dpbench collectives` passes the rank and world in
// environment variables.
int run_launched(CommandLine line) {
  const Variables launched = read_variables();
  settle_worlds(line.asked, std::min(launched.world, most_world), launched.world);
  if (launched.rank == 0) require_writable(line);
  StorePtr served;
  return run_rank(line, {launched.rank, launched.world, launched.local_rank, launched.local_world}, [&] {
    if (launched.serves) served = serve_rendezvous(launched.rendezvous);
    return join_rendezvous(launched.rendezvous, launched.timeout);
  });
}

// Forks the ranks of the largest world, runs the benchmarks on them and returns the exit code.
int run_forked(CommandLine line) {
  settle_worlds(line.asked, 2, most_world);
  require_writable(line);
  const int ranks =
      line.has("--benchmark_list_tests") ? 1 : *std::max_element(line.asked.worlds.begin(), line.asked.worlds.end());
  std::string folder = std::filesystem::temp_directory_path() / "dpbench-micro-XXXXXX";
  if (!mkdtemp(folder.data())) throw UsageError("cannot create a temporary directory. Set TMPDIR to a writable one");
  const auto run = [&](int rank) {
    return run_rank(line, {rank, ranks, rank, ranks},
                    [&] { return c10::make_intrusive<c10d::FileStore>(folder + "/store", ranks); });
  };
  for (int rank = 1; rank < ranks; ++rank)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(run(rank));
    }
  int code = run(0);
  for (int status; wait(&status) > 0;) code = std::max(code, WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace dpbench::micro

int main(int argc, char** argv) {
  try {
    const auto line = dpbench::micro::command_line(argc, argv);
    dpbench::retain_freed_memory(dpbench::Runtime::fast);  // use the same malloc settings as a dpbench worker
    if (!line) return 0;
    const char* store = std::getenv("DPBENCH_STORE");
    return store && *store ? dpbench::micro::run_launched(*line) : dpbench::micro::run_forked(*line);
  } catch (const dpbench::UsageError& error) {
    std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 2;
  } catch (const dpbench::Unavailable& error) {
    std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 77;
  }
}
