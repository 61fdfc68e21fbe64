#include "harness/front/launch/python_host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "harness/front/launch/worker_program.h"
#include "harness/front/process/capture.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

bool can_be_run(const fs::path& file) { return ::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file); }

// Returns the folder with dpbench's Python package and libdpbench_python.so, the worker that Python loads.
fs::path python_folder(const fs::path& worker) {
  const fs::path here = worker.parent_path();
  for (const fs::path& folder : {here / "../libexec/dpbench/python", here / "python"})
    if (fs::exists(folder / "libdpbench_python.so")) return fs::canonical(folder);
  throw UsageError("no libdpbench_python.so in " + (here / "../libexec/dpbench/python").lexically_normal().string() +
                   ". Build dpbench_python");
}

}  // namespace

bool is_python(const std::string& plugin) { return plugin.ends_with(".py"); }

std::string find_interpreter(const std::string& asked) {
  const std::string name = asked.empty() ? "python3" : asked;
  if (name.find('/') != std::string::npos) {
    if (can_be_run(name)) return fs::absolute(name);
    throw UsageError("--python '" + one_line(name, 200) + "': no such program");
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && can_be_run(fs::path(folder) / name)) return fs::absolute(fs::path(folder) / name);
  throw UsageError("no " + one_line(name, 200) + " on PATH. Strategies in Python need one with torch: use --python");
}

InterpreterTorch torch_of_interpreter(const std::string& interpreter) {
  // The current folder, which -c puts first, is not on the path of host.py.
  static const char* const program = R"(
import importlib.util, os, re, sys
sys.path = [folder for folder in sys.path if folder]
spec = importlib.util.find_spec("torch")
if spec and spec.origin:
    folder = os.path.dirname(spec.origin)
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        print(re.search("__version__ = '(.*)'", file.read())[1], folder, sep="\n")
)";
  constexpr double limit_s = 20;
  const Captured captured =
      run_and_capture({.path = interpreter, .arguments = {"-c", program}, .variables = {}, .cpus = {}}, limit_s);
  std::istringstream lines(captured.output);
  InterpreterTorch torch;
  std::getline(std::getline(lines, torch.version), torch.folder);
  return captured.status == 0 ? torch : InterpreterTorch();
}

PythonHost find_python_host(const fs::path& worker, const std::vector<std::string>& plugins, const std::string& asked) {
  if (std::ranges::none_of(plugins, is_python)) return {};
  const fs::path folder = python_folder(worker);
  return {.interpreter = find_interpreter(asked),
          .arguments = {folder / "dpbench/host.py", folder / "libdpbench_python.so", torch_of(worker)}};
}

fs::path shipped_file(const fs::path& worker, const std::string& name) {
  return python_folder(worker) / "dpbench" / name;
}

}  // namespace dpbench
