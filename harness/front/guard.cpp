#include "harness/front/guard.h"

#include <iostream>

#include "harness/front/exit_code.h"
#include "harness/front/launched/error_file.h"
#include "harness/front/text.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

int complain(const std::string& message, int code) {
  write_error_file(message);
  std::cerr << "dpbench: " << sanitised(message) << '\n';
  return code;
}

}  // namespace

int guarded(const std::function<int()>& command) {
  try {
    return command();
  } catch (const UsageError& error) {
    return complain(error.what(), kExitUsage);
  } catch (const Unavailable& error) {
    return complain(error.what(), kExitUnavailable);
  } catch (const std::exception& error) {
    return complain(error.what(), exit_code({.failed = true}));
  }
}

}  // namespace dpbench
