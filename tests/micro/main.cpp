// dpbench-micro: collectives by backend, world and size, and the parts around them, on Google Benchmark.
#include <benchmark/benchmark.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "harness/report/environment.h"
#include "harness/report/tool.h"
#include "strategies/comm/backend.h"
#include "tests/micro/table.h"
#include "tests/micro/team.h"
#include "workloads/error.h"

namespace dpbench::micro {
namespace {

struct CommandLine {
  MicroAsked asked{};
  std::vector<std::string> passed_on{};  // to Google Benchmark

  bool has(const std::string& start) const {
    return std::any_of(passed_on.begin(), passed_on.end(), [&](auto& word) { return word.starts_with(start); });
  }
};

void settle(CommandLine& line) {
  std::vector<std::string> known;
  for (const BackendInfo& info : backend_registry().all())
    if (info.cpu && !info.threads) known.push_back(info.name);
  if (line.asked.backends.empty()) line.asked.backends = known;
  for (const std::string& name : line.asked.backends) {
    std::string all;
    for (const auto& one : known) all += (all.empty() ? "" : ", ") + one;
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError("--backend: '" + name.substr(0, 40) + "' is not one that takes CPU tensors from processes (" +
                       all + ")");
  }
  if (line.asked.least_bytes > line.asked.most_bytes) throw UsageError("--min-bytes is above --max-bytes");
  if (line.has("--benchmark_enable_random_interleaving"))
    throw UsageError("--benchmark_enable_random_interleaving: every rank would take another order");
}

// Nothing: --help was asked for and printed.
std::optional<CommandLine> command_line(int argc, char** argv) {
  CommandLine line;
  std::vector<std::string> ours;
  for (int i = argc - 1; i > 0; --i) {
    const std::string word = argv[i];
    (word.starts_with("--benchmark_") ? line.passed_on : ours).push_back(word);
  }
  CLI::App app(
      "Collectives by backend, world and size, and the parts around them. Flags of Google Benchmark are passed on:\n"
      "--benchmark_filter=REGEX, --benchmark_format=json, --benchmark_out=FILE, --benchmark_repetitions=N, ...");
  app.name("dpbench-micro");
  MicroAsked& asked = line.asked;
  app.add_option("--world", asked.worlds, "worlds, a process a rank [2]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 64));
  app.add_option("--backend", asked.backends, "[all that take CPU tensors]")->delimiter(',')->allow_extra_args(false);
  app.add_option("--min-bytes", asked.least_bytes, "smallest size [4]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(4, 1 << 30));
  app.add_option("--max-bytes", asked.most_bytes, "largest size [256MiB]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(4, 1 << 30));
  app.add_option("--factor", asked.factor, "between sizes [4]")->check(CLI::Range(2, 1024));
  try {
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
  settle(line);
  return line;
}

class Silent : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Rank 0 alone writes files.
void initialize(const CommandLine& line, int rank) {
  static std::vector<std::string> words{"dpbench-micro"};  // the library keeps a pointer to its name
  for (const std::string& word : line.passed_on)
    if (rank == 0 || !word.starts_with("--benchmark_out")) words.push_back(word);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) throw UsageError("Google Benchmark does not know " + std::string(pointers[1]));
}

void describe(const MicroAsked& asked) {
  std::string worlds;
  for (const int world : asked.worlds) worlds += (worlds.empty() ? "" : ", ") + std::to_string(world);
  benchmark::AddCustomContext("world", worlds);
  benchmark::AddCustomContext("machine", machine_label(environment(this_machine(), {}, {})));
  benchmark::AddCustomContext("commit", built_commit());
}

// The exit code of a rank. What is not right on one ends all: they have the same list.
int run_rank(const CommandLine& line, int rank, int ranks, const std::string& file) {
  try {
    initialize(line, rank);
    at::set_num_threads(1);
    Team team(rank, ranks, file);
    add_collectives(team, line.asked);
    const auto& backends = line.asked.backends;
    const auto asked_for = [&](const char* name) {
      return std::find(backends.begin(), backends.end(), name) != backends.end();
    };
    if (asked_for("shm") && asked_for("gloo")) add_arms(team, line.asked.worlds.front());
    add_parts(team);
    add_by_hand(team);
    describe(line.asked);
    Silent silent;
    size_t ran = 0;
    if (rank > 0)
      ran = benchmark::RunSpecifiedBenchmarks(&silent);
    else if (line.has("--benchmark_format"))
      ran = benchmark::RunSpecifiedBenchmarks();
    else
      ran = benchmark::RunSpecifiedBenchmarks(table_reporter(std::cout).get());
    team.meet();
    if (ran == 0) throw UsageError("no benchmark matches --benchmark_filter");
    return team.failed ? 1 : 0;
  } catch (const UsageError& error) {
    if (rank == 0) std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dpbench-micro: rank " << rank << ": " << std::string(error.what()).substr(0, 300) << '\n';
    return 3;
  }
}

int run_all(const CommandLine& line) {
  const bool lists = line.has("--benchmark_list_tests");
  const int ranks = lists ? 1 : *std::max_element(line.asked.worlds.begin(), line.asked.worlds.end());
  std::string folder = std::filesystem::temp_directory_path() / "dpbench-micro-XXXXXX";
  if (!mkdtemp(folder.data())) throw UsageError("no temporary directory can be made; TMPDIR names another place");
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
    return line ? dpbench::micro::run_all(*line) : 0;
  } catch (const dpbench::UsageError& error) {
    std::cerr << "dpbench-micro: " << error.what() << '\n';
    return 2;
  }
}
