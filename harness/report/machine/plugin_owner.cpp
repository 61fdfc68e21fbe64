#include "harness/report/machine/plugin_owner.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dpbench {
namespace {

std::string name_of_user(uid_t user) {
  const passwd* entry = ::getpwuid(user);
  return entry ? entry->pw_name : std::to_string(user);
}

}  // namespace

std::optional<PluginFault> fault_of_plugin(const std::filesystem::path& file) {
  using Kind = PluginFault::Kind;
  // Check the plug-in's folder too: whoever can write to it can replace the file.
  for (const auto& path : {file, file.parent_path()}) {
    struct stat state{};
    if (::stat(path.c_str(), &state) != 0) return PluginFault{Kind::missing, path};
    if (state.st_uid != 0 && state.st_uid != ::geteuid()) return PluginFault{Kind::of_another_user, path, state.st_uid};
    const bool sticky_directory = S_ISDIR(state.st_mode) && (state.st_mode & S_ISVTX);
    if ((state.st_mode & (S_IWGRP | S_IWOTH)) && !sticky_directory)
      return PluginFault{Kind::writable_by_others, path, state.st_uid};
  }
  return std::nullopt;
}

std::string describe(const PluginFault& fault) {
  const std::string path = fault.path.string();
  switch (fault.kind) {
    case PluginFault::Kind::missing:
      return "cannot access " + path;
    case PluginFault::Kind::of_another_user:
      return "refused because " + path + " belongs to user " + name_of_user(fault.owner) +
             "; copy the file into a folder of your own, or chown both to yourself or root";
    default:
      return "refused because others may write " + path + "; chmod go-w it first";
  }
}

}  // namespace dpbench
