// The program dpbench: which command, and what becomes of its errors.
#include <functional>
#include <iostream>
#include <map>

#include "harness/front/cli.h"
#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/signals.h"
#include "harness/front/text.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

int run_options(const Options& options) {
  static const std::map<std::string, int (*)(const Options&)> kCommands = {
      {"run", run_command},       {"check", check_command},     {"train", train_command},
      {"list", list_command},     {"doctor", doctor_command},   {"env", env_command},
      {"duel", duel_command},     {"compare", compare_command}, {"export", export_command},
      {"report", report_command}, {"validate", validate_command}};
  return kCommands.at(options.command)(options);
}

int complain(const std::string& message, int code) {
  std::cerr << "dpbench: " << sanitised(message) << '\n';
  return code;
}

int dispatch(const std::vector<std::string>& arguments) {
  try {
    const auto parsed = parse_command_line(arguments);
    if (const auto* options = std::get_if<Options>(&parsed)) return run_options(*options);
    return exit_code({.unsaved = !print(std::get<std::string>(parsed))});
  } catch (const UsageError& error) {
    return complain(error.what(), kExitUsage);
  } catch (const Unavailable& error) {
    return complain(error.what(), kExitUnavailable);
  } catch (const std::exception& error) {
    return complain(error.what(), exit_code({.failed = true}));
  }
}

}  // namespace
}  // namespace dpbench

int main(int count, char** words) {
  dpbench::prepare_process();
  return dpbench::dispatch({words + 1, words + count});
}
