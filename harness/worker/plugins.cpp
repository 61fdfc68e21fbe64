#include "harness/worker/plugins.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <dlfcn.h>

#include "harness/report/plugin_owner.h"
#include "workloads/plugin_abi.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

// Found in the file's bytes, before any of its code runs.
void check_abi(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::string mark = DPBENCH_ABI_MARK, wanted = plugin_abi;
  const size_t at = bytes.find(mark);
  if (at == std::string::npos)
    throw UsageError("--plugin " + file + " was not built against dpbench's headers");
  const std::string found = bytes.substr(at, bytes.find('\0', at) - at);
  if (found != wanted) throw UsageError("--plugin " + file + " was built for '" + found + "', this is '" + wanted + "'");
}

std::string words_of(const PluginFault& fault) {
  const std::string path = fault.path.string();
  switch (fault.kind) {
    case PluginFault::Kind::missing: return "--plugin " + path + " does not exist";
    case PluginFault::Kind::of_another_user:
      return "--plugin: " + path + " belongs to user " + std::to_string(fault.owner) +
             "; copy the file into a folder of your own, or chown both to yourself or root";
    default: return "--plugin: " + path + " can be written by others; chmod go-w it";
  }
}

}  // namespace

void load_plugin(const std::string& file) {
  const std::filesystem::path path = file;
  if (!path.is_absolute()) throw UsageError("--plugin " + file + " must be an absolute path");
  if (const auto fault = fault_of_plugin(path)) throw UsageError(words_of(*fault));
  check_abi(file);
  if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) throw UsageError("--plugin " + file + ": " + dlerror());
}

}  // namespace dpbench
