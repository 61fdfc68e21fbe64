// dpbench collectives: execs dpbench-micro, the program beside the worker that measures collectives. Under an outside
// launcher (torchrun, mpirun, srun) every rank does so.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/front/cli/collectives_flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/outside/placement.h"
#include "harness/front/launch/worker_program.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

struct MicroOptions : CollectivesOptions {
  std::vector<std::string> words{};  // the user's flags of `dpbench collectives`, to be passed to dpbench-micro
};

void add_flags(CLI::App& app, MicroOptions& o) { add_collectives_flags(app, o); }

void keep_words(const CLI::App& app, std::any& options) {
  auto& o = std::any_cast<MicroOptions&>(options);
  for (const CLI::Option* option : app.get_options()) {
    const bool is_switch = option->get_expected_max() == 0;
    for (const std::string& value : option->results())
      o.words.push_back("--" + option->get_lnames().front() + (is_switch ? "" : "=" + value));
  }
  // Name all collectives, because dpbench-micro without names measures more than collectives.
  if (o.collectives.empty() && !o.pairs) o.words.push_back("--collective=" + all_names<CollectiveName>(","));
}

// Returns the path of dpbench-micro. Throws UsageError if it is not beside the worker.
std::string find_micro() {
  const fs::path micro = find_worker().parent_path() / "dpbench-micro";
  if (::access(micro.c_str(), X_OK) == 0) return micro;
  throw UsageError("no " + micro.string() +
                   ", which measures collectives. Install Google Benchmark (Debian: libbenchmark-dev), run cmake again "
                   "and build the target dpbench-micro");
}

int exec_micro(const MicroOptions& options) {
  std::vector<std::string> words = {find_micro()};
  words.insert(words.end(), options.words.begin(), options.words.end());
  if (const auto placement = find_placement(StartedBy::automatic); placement && placement->world > 1)
    for (const auto& [name, value] : variables_of(*placement)) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  throw UsageError(words[0] + " cannot be started: " + std::strerror(errno));
}

}  // namespace

Command collectives_command() {
  Command command = reading_command(
      {.name = "collectives",
       .arguments = "[FLAGS]",
       .summary = "measure collectives by size, type and rank, beside copies or links",
       .examples = {{"collectives --collective allreduce --max-bytes 64MiB", "latency and bandwidth by size"},
                    {"collectives --dtype f32,bf16 --op sum,max --in-place", "also by type and reduction"},
                    {"collectives --pairs --world 4 --backend gloo", "bandwidth and latency of each two ranks"},
                    {"collectives -o json > collectives.json", "for dpbench report --collectives"}},
       .exit_codes = {1, 3, 77}},
      add_flags, exec_micro);
  command.settle = keep_words;
  command.on_every_rank = true;
  return command;
}

}  // namespace dpbench
