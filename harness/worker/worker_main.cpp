#include "harness/worker/worker_main.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>

#include "harness/worker/catalogue_json.h"
#include "harness/worker/parameters_json.h"
#include "harness/worker/rank/cuda.h"
#include "harness/worker/rank/host_memory.h"
#include "harness/worker/rank/plugins.h"
#include "harness/worker/rank/tensor_memory.h"
#include "harness/worker/relay.h"
#include "harness/worker/serve.h"
#include "workloads/api/workload.h"
#include "workloads/base/error.h"
#include "workloads/base/registry.h"
#include "workloads/base/runtime.h"

namespace dpbench {
namespace {

// Calls `make` and prints the JSON that it returns. What plug-ins print during the call goes to stderr, because stdout
// is reserved for the JSON.
template <class Make>
int print_json(const Make& make) {
  const int output = dup(STDOUT_FILENO);
  check(output >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, "dup failed");
  const std::string text = make().dump(1);
  std::fflush(stdout);
  check(dup2(output, STDOUT_FILENO) >= 0, "dup2 failed");
  // A Python interpreter that hosts this worker ends without flushing stdout.
  check(std::puts(text.c_str()) >= 0 && std::fflush(stdout) == 0, "the answer could not be written");
  return 0;
}

// Loads the plug-ins named by --plugin among the arguments from number `first` on. Returns false if --no-cuda is among
// these arguments.
bool load_plugins(const std::vector<std::string>& arguments, size_t first) {
  bool with_cuda = true;
  for (size_t i = first; i < arguments.size(); ++i) {
    if (arguments[i] == "--no-cuda")
      with_cuda = false;
    else if (arguments[i] == "--plugin" && i + 1 < arguments.size())
      load_plugin(arguments[++i]);
    else
      throw UsageError("unknown argument '" + arguments[i] + "'");
  }
  return with_cuda;
}

int print_catalogue(const std::vector<std::string>& arguments) {
  // Count the workloads of this build before plug-ins register theirs. Workloads from Python files do not count.
  const auto built_in =
      static_cast<size_t>(std::ranges::count(workload_registry().all(), false, &WorkloadInfo::python));
  return print_json([&] { return catalogue(load_plugins(arguments, 1), built_in); });
}

// Prints the parameters of a workload's model. Arguments: --parameters WORKLOAD MODEL [--plugin FILE]...
int print_parameters(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) throw UsageError("--parameters needs a workload and a model");
  return print_json([&] {
    load_plugins(arguments, 3);
    return parameters_json(arguments[1], arguments[2]);
  });
}

// Prints for each choice of a strategy's parameter values why the strategy refuses it, or null. Arguments: --refusals
// CHOICE... [--plugin FILE]... [--no-cuda]
int print_refusals(const std::vector<std::string>& arguments) {
  const auto first = arguments.begin() + 1,
             end = std::find_if(first, arguments.end(), [](const std::string& word) { return word.starts_with("--"); });
  return print_json([&] {
    load_plugins(arguments, static_cast<size_t>(end - arguments.begin()));
    return refusals({first, end});
  });
}

int relay_until_death(const std::vector<std::string>&) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return relay();
}

int run(const std::vector<std::string>& arguments) {
  require_valid_registrations("this build");
  static const std::map<std::string, int (*)(const std::vector<std::string>&)> modes = {
      {"--catalogue", print_catalogue},
      {"--parameters", print_parameters},
      {"--refusals", print_refusals},
      {"--relay", relay_until_death}};
  if (const auto mode = arguments.empty() ? modes.end() : modes.find(arguments[0]); mode != modes.end())
    return mode->second(arguments);
  if (!arguments.empty())
    throw UsageError("usage: dpbench-worker --catalogue [--plugin FILE]... [--no-cuda]. For ranks, use dpbench.");
  const Variables variables = read_variables();
  set_runtime(variables.runtime);
  retain_freed_memory(variables.runtime);
  count_tensor_memory();
  // Ask the kernel to kill this worker when the front (the dpbench process) dies. If the front died before this call,
  // serve() finds its socket closed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Stdout and stderr of a rank go to the same log file. Stdout is flushed after every line, so that the lines of both
  // stay in order and none is lost in a crash.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (variables.device == Device::cuda)
    if (const std::string reason = load_cuda(); !reason.empty()) throw Unavailable("no CUDA: " + reason);
  const int code = serve(variables);
  // Skip LibTorch's static destructors, which would delay the exit of every worker by 0.1 s.
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int worker_main(const std::vector<std::string>& arguments) {
  try {
    return run(arguments);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "dpbench-worker: %s\n", error.what());
    return 2;
  } catch (const Unavailable& error) {
    std::fprintf(stderr, "dpbench-worker: %s\n", error.what());
    return 77;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dpbench-worker: %s\n", error.what());
    return 3;
  }
}

}  // namespace dpbench
