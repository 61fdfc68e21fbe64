#include "harness/micro/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/worker/rank/cuda.h"
#include "strategies/api/backend.h"
#include "workloads/base/error.h"
#include "workloads/base/kinds.h"

namespace dpbench::micro {
namespace {

void add_flags(CLI::App& app, MicroOptions& asked) {
  app.add_option("--world", asked.worlds, "numbers of ranks, one process each [2]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 64));
  app.add_option("--device", "device of the tensors; cuda: only the collectives [cpu]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--backend", asked.backends, "backends [all that take tensors of the device]")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--min-bytes", asked.least_bytes, "smallest size [4]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(4, 1 << 30));
  app.add_option("--max-bytes", asked.most_bytes, "largest size [256MiB]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(4, 1 << 30));
  app.add_option("--factor", asked.factor, "factor between sizes [4]")->check(CLI::Range(2, 1024));
}

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
  MicroOptions& asked = line.asked;
  add_flags(app, asked);
  try {
    app.parse(ours);
    asked.cuda = app.count("--device") > 0 && app["--device"]->as<std::string>() == name_of(Device::cuda);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
  check_and_complete(line);
  return line;
}

}  // namespace dpbench::micro
