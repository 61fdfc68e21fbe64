// A dpbench command: its name, help, flags, the options that the flags fill, and the functions that run it.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/front/cli/options.h"

namespace CLI {
class App;
}

namespace dpbench {

class Run;
class World;

struct Example {
  std::string arguments, meaning;
};

struct CommandHelp {
  std::string name;
  std::string arguments;  // arguments shown after the command's name in the usage line
  std::string summary;
  std::vector<Example> examples;
  std::vector<int> exit_codes;  // exit codes of this command, without 0, 2 and 5, which all commands have
};

struct Command : CommandHelp {
  std::any options;  // the command's own options struct, which its functions receive
  std::function<void(CLI::App& app, std::any& options)> add_flags;
  std::function<void(const CLI::App& app, std::any& options)>
      settle;  // derives options from combinations of flags; null if the command derives none

  // Runs a command that runs no cases; returns its exit code. Null for run, check, train, tune and duel.
  std::function<int(const std::any& options)> read;
  // Under an outside launcher (torchrun, mpirun, srun): true: the command runs on every rank; false: only on rank 0.
  bool on_every_rank = false;
  // Set only for commands that run cases on worker processes: `measuring` returns the MeasuringOptions within
  // `options`, and `start` creates the Run (one execution of the command). `world` connects to the ranks of an outside
  // launcher (torchrun, mpirun, srun); it is null if dpbench starts the ranks itself.
  std::function<MeasuringOptions&(std::any& options)> measuring;
  std::function<std::unique_ptr<Run>(const std::any& options, World* world)> start;
};

template <class Options>
Command command_with(CommandHelp help, void (*add_flags)(CLI::App&, Options&)) {
  Command command;
  static_cast<CommandHelp&>(command) = std::move(help);
  command.options = Options();
  command.add_flags = [=](CLI::App& app, std::any& options) { add_flags(app, std::any_cast<Options&>(options)); };
  return command;
}

template <class Options>
Command reading_command(CommandHelp help, void (*add_flags)(CLI::App&, Options&), int (*read)(const Options&)) {
  Command command = command_with(std::move(help), add_flags);
  command.read = [=](const std::any& options) { return read(std::any_cast<const Options&>(options)); };
  return command;
}

// Makes a command that runs cases on worker processes. `Own` is its class derived from Run, with a constructor that
// takes Options and World*.
template <class Options, class Own>
Command measuring_command(CommandHelp help, void (*add_flags)(CLI::App&, Options&),
                          void (*settle)(const CLI::App&, Options&)) {
  Command command = command_with(std::move(help), add_flags);
  command.settle = [=](const CLI::App& app, std::any& options) { settle(app, std::any_cast<Options&>(options)); };
  command.measuring = [](std::any& options) -> MeasuringOptions& { return std::any_cast<Options&>(options); };
  command.start = [](const std::any& options, World* world) -> std::unique_ptr<Run> {
    return std::make_unique<Own>(std::any_cast<const Options&>(options), world);
  };
  return command;
}

}  // namespace dpbench
