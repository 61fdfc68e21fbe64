#include "harness/worker/rank/plugins.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <dlfcn.h>

#include "harness/report/machine/plugin_owner.h"
#include "workloads/api/plugin_abi.h"
#include "workloads/base/error.h"
#include "workloads/base/registry.h"

namespace dpbench {
namespace {

// Throws UsageError unless the plug-in's file contains the expected ABI mark (a text with the versions of dpbench and
// LibTorch for which it was built). Searches the file's bytes before any plug-in code runs.
void check_abi(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::string mark = DPBENCH_ABI_MARK, wanted = plugin_abi;
  const size_t at = bytes.find(mark);
  if (at == std::string::npos) throw UsageError("--plugin " + file + " was not built against dpbench's headers");
  const std::string found = bytes.substr(at, bytes.find('\0', at) - at);
  if (found != wanted)
    throw UsageError("--plugin " + file + " was built for '" + found + "', but this is '" + wanted + "'");
}

}  // namespace

void load_plugin(const std::string& file) {
  const std::filesystem::path path = file;
  if (!path.is_absolute()) throw UsageError("--plugin " + file + " must be an absolute path");
  if (const auto fault = fault_of_plugin(path)) throw UsageError("--plugin " + file + ": " + describe(*fault));
  check_abi(file);
  if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) throw UsageError("--plugin " + file + ": " + dlerror());
  require_valid_registrations("--plugin " + file);
}

}  // namespace dpbench
