// A command as the table of commands has it: its name, its flags and the options that they fill, and its work.
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

// What the help says of a command.
struct CommandHelp {
  std::string name;
  std::string arguments;  // after the name in the usage line
  std::string summary;
  std::vector<Example> examples;
  std::vector<int> exit_codes;  // besides 0, 2 and 5, which every command has
};

struct Command : CommandHelp {
  std::any options;  // its own struct; the functions below get it
  std::function<void(CLI::App& app, std::any& options)> add_flags;
  std::function<void(const CLI::App& app, std::any& options)> settle;  // what the flags mean together; may be empty

  // Of a command that only reads: all of its work. Returns the exit code.
  std::function<int(const std::any& options)> read{};
  // Of a command that starts workers, on the ranks of an outside launcher where there is a world of them.
  std::function<MeasuringOptions&(std::any& options)> measuring{};
  std::function<std::unique_ptr<Run>(const std::any& options, World* world)> start{};
};

template <class Options>
Command reading_command(CommandHelp help, void (*add_flags)(CLI::App&, Options&), int (*read)(const Options&)) {
  return {std::move(help),
          .options = Options(),
          .add_flags = [=](CLI::App& app, std::any& options) { add_flags(app, std::any_cast<Options&>(options)); },
          .settle = {},
          .read = [=](const std::any& options) { return read(std::any_cast<const Options&>(options)); }};
}

// Own: a Run that is made of Options and a World*.
template <class Options, class Own>
Command measuring_command(CommandHelp help, void (*add_flags)(CLI::App&, Options&),
                          void (*settle)(const CLI::App&, Options&)) {
  return {std::move(help),
          .options = Options(),
          .add_flags = [=](CLI::App& app, std::any& options) { add_flags(app, std::any_cast<Options&>(options)); },
          .settle = [=](const CLI::App& app, std::any& options) { settle(app, std::any_cast<Options&>(options)); },
          .measuring = [](std::any& options) -> MeasuringOptions& { return std::any_cast<Options&>(options); },
          .start = [](const std::any& options, World* world) -> std::unique_ptr<Run> {
            return std::make_unique<Own>(std::any_cast<const Options&>(options), world);
          }};
}

}  // namespace dpbench
