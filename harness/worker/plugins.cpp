#include "harness/worker/plugins.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "strategies/plugin_abi.h"
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

void check_permissions(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) throw UsageError("--plugin " + path + " does not exist");
  if (info.st_uid != 0 && info.st_uid != geteuid())
    throw UsageError("--plugin: " + path + " belongs to user " + std::to_string(info.st_uid) +
                     "; copy the file into a folder of your own, or chown both to yourself or root");
  if (info.st_mode & (S_IWGRP | S_IWOTH) && !(S_ISDIR(info.st_mode) && info.st_mode & S_ISVTX))
    throw UsageError("--plugin: " + path + " can be written by others; chmod go-w it");
}

}  // namespace

void load_plugin(const std::string& file) {
  const std::filesystem::path path = file;
  if (!path.is_absolute()) throw UsageError("--plugin " + file + " must be an absolute path");
  check_permissions(path.parent_path());
  check_permissions(file);
  check_abi(file);
  if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) throw UsageError("--plugin " + file + ": " + dlerror());
}

}  // namespace dpbench
