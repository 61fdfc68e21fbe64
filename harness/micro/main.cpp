// dpbench-micro: micro-benchmarks of collectives by backend, world and size, and of the code around them, on Google
// Benchmark.
#include <benchmark/benchmark.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
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

void add_context(const MicroOptions& asked) {
  std::string worlds;
  for (const int world : asked.worlds) worlds += (worlds.empty() ? "" : ", ") + std::to_string(world);
  benchmark::AddCustomContext("world", worlds);
  benchmark::AddCustomContext("device", asked.cuda ? "cuda" : "cpu");
  benchmark::AddCustomContext("machine", machine_label(environment(this_machine(), {}, {})));
  benchmark::AddCustomContext("commit", built_commit());
}

// Returns the device of a rank. With --device cuda, rank r uses GPU r modulo the number of GPUs. Throws UsageError if
// ranks would share a GPU and their backend does not allow it. Called only after the fork, because this function
// initialises CUDA.
at::Device device_of(const MicroOptions& asked, int rank) {
  if (!asked.cuda) return at::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0) throw Unavailable("--device cuda: this machine has no GPU. Use --device cpu");
  for (const int world : asked.worlds)
    for (const std::string& name : asked.backends)
      if (world > gpus && !backend_registry().at(name).shares_device)
        throw UsageError("--world " + std::to_string(world) + ": " + name +
                         " needs a GPU for each rank, and this machine has " + std::to_string(gpus) +
                         ". Use another --backend");
  return {at::kCUDA, static_cast<c10::DeviceIndex>(rank % gpus)};
}

void add_all(Team& team, const MicroOptions& asked) {
  add_collectives(team, asked);
  if (asked.cuda) return;  // the other benchmarks run on the CPU only
  const auto has_backend = [&](const char* name) {
    return std::find(asked.backends.begin(), asked.backends.end(), name) != asked.backends.end();
  };
  if (has_backend("shm") && has_backend("gloo")) add_arms(team, asked.worlds.front());
  add_parts(team);
  add_by_hand(team);
  add_limit(team);
  add_calls(team);
}

// Runs all benchmarks as one rank and returns its exit code.
int run_rank(const CommandLine& line, int rank, int ranks, const std::string& file) {
  try {
    initialize(line, rank);
    at::set_num_threads(1);
    const at::Device device = device_of(line.asked, rank);
    const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
    Team team(rank, ranks, file, device);
    add_all(team, line.asked);
    add_context(line.asked);
    SilentReporter silent;
    size_t ran = 0;
    if (rank > 0)
      ran = benchmark::RunSpecifiedBenchmarks(&silent);
    else if (line.has("--benchmark_format"))
      ran = benchmark::RunSpecifiedBenchmarks();
    else
      ran = benchmark::RunSpecifiedBenchmarks(table_reporter(std::cout).get());
    team.barrier();
    if (ran == 0) throw UsageError("no benchmark matches --benchmark_filter");
    return team.failed ? 1 : 0;
  } catch (const UsageError& error) {
    if (rank == 0) std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 2;
  } catch (const Unavailable& error) {
    if (rank == 0) std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 77;
  } catch (const std::exception& error) {
    std::cerr << "dpbench-micro: rank " << rank << ": " << std::string(error.what()).substr(0, 300) << '\n';
    return 3;
  }
}

int run_all(const CommandLine& line) {
  require_writable(line);
  const bool lists = line.has("--benchmark_list_tests");
  const int ranks = lists ? 1 : *std::max_element(line.asked.worlds.begin(), line.asked.worlds.end());
  std::string folder = std::filesystem::temp_directory_path() / "dpbench-micro-XXXXXX";
  if (!mkdtemp(folder.data())) throw UsageError("cannot create a temporary directory. Set TMPDIR to a writable one");
  for (int rank = 1; rank < ranks; ++rank)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(run_rank(line, rank, ranks, folder + "/store"));
    }
  int code = run_rank(line, 0, ranks, folder + "/store");
  for (int status; wait(&status) > 0;) code = std::max(code, WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace dpbench::micro

int main(int argc, char** argv) {
  try {
    const auto line = dpbench::micro::command_line(argc, argv);
    dpbench::retain_freed_memory();  // use the same malloc settings as a dpbench worker
    return line ? dpbench::micro::run_all(*line) : 0;
  } catch (const dpbench::UsageError& error) {
    std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 2;
  } catch (const dpbench::Unavailable& error) {
    std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 77;
  }
}
