#include "harness/micro/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/front/cli/flags.h"
#include "harness/worker/rank/cuda.h"
#include "strategies/api/backend.h"
#include "workloads/base/error.h"

namespace dpbench::micro {
namespace {

void check_and_complete(CommandLine& line) {
  // Load the CUDA library before forking, so that all ranks inherit it. Loading does not initialise the driver, which
  // would break in a forked process.
  if (line.asked.cuda)
    if (const std::string reason = load_cuda(); !reason.empty()) throw Unavailable("--device cuda: " + reason);
  std::vector<std::string> known;
  for (const BackendInfo& info : backend_registry().all())
    if ((line.asked.cuda ? info.cuda : info.cpu) && !info.threads) known.push_back(info.name);
  if (line.asked.backends.empty()) line.asked.backends = known;
  for (const std::string& name : line.asked.backends) {
    std::string all;
    for (const auto& one : known) all += (all.empty() ? "" : ", ") + one;
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError("--backend '" + name.substr(0, 40) + "': no backend of this name takes " +
                       (line.asked.cuda ? "CUDA" : "CPU") + " tensors from processes. Use one of " + all);
  }
  if (line.asked.least_bytes > line.asked.most_bytes) throw UsageError("--min-bytes is above --max-bytes");
  // Benchmarks that are not collectives run only on CPUs, so --device cuda leaves them out.
  line.others = line.asked.collectives.empty() && !line.asked.cuda;
  if (line.asked.collectives.empty()) line.asked.collectives = all_values<CollectiveName>();
  if (line.asked.output == Form::json) line.passed_on.emplace_back("--benchmark_format=json");
  if (line.has("--benchmark_enable_random_interleaving"))
    throw UsageError(
        "--benchmark_enable_random_interleaving: not supported, because each rank would use a different order");
}

}  // namespace

std::optional<CommandLine> command_line(int argc, char** argv) {
  CommandLine line;
  std::vector<std::string> ours;
  for (int i = argc - 1; i > 0; --i) {
    const std::string word = argv[i];
    (word.starts_with("--benchmark_") ? line.passed_on : ours).push_back(word);
  }
  CLI::App app(
      "Measures collectives by backend, world and size, and the code around them. Flags of Google Benchmark are passed "
      "on:\n"
      "--benchmark_filter=REGEX, --benchmark_format=json, --benchmark_out=FILE, --benchmark_repetitions=N, ...");
  app.name("dpbench-micro");
  add_collectives_flags(app, line.asked);
  try {
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
  check_and_complete(line);
  return line;
}

void settle_worlds(CollectivesOptions& asked, int usual, int most) {
  if (asked.worlds.empty()) asked.worlds = {usual};
  const int largest = *std::max_element(asked.worlds.begin(), asked.worlds.end());
  if (largest > most)
    throw UsageError("--world " + std::to_string(largest) + ": there are " + std::to_string(most) + " ranks");
  if (asked.pairs && largest < 2) throw UsageError("--pairs needs --world 2 or more");
}

}  // namespace dpbench::micro
