#include "harness/front/commands/command_errors.h"

#include <exception>
#include <iostream>
#include <string>

#include "harness/front/launch/exit_code.h"
#include "harness/front/launch/outside/error_file.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

int report_error(const std::string& message, int code) {
  write_error_file(message);
  std::cerr << "dpbench: " << sanitised(message) << '\n';
  return code;
}

}  // namespace

int exit_code_of_command(const std::function<int()>& command) {
  try {
    return command();
  } catch (const UsageError& error) {
    return report_error(error.what(), exit_usage);
  } catch (const Unavailable& error) {
    return report_error(error.what(), exit_unavailable);
  } catch (const std::exception& error) {
    return report_error(error.what(), exit_code({.failed = true}));
  }
}

}  // namespace dpbench
