#include "harness/report/plugin_owner.h"

#include <sys/stat.h>
#include <unistd.h>

namespace dpbench {

std::optional<PluginFault> fault_of_plugin(const std::filesystem::path& file) {
  using Kind = PluginFault::Kind;
  for (const auto& path : {file, file.parent_path()}) {  // who may write the folder may replace the file
    struct stat state{};
    if (::stat(path.c_str(), &state) != 0) return PluginFault{Kind::missing, path};
    if (state.st_uid != 0 && state.st_uid != ::geteuid()) return PluginFault{Kind::of_another_user, path, state.st_uid};
    const bool sticky_directory = S_ISDIR(state.st_mode) && (state.st_mode & S_ISVTX);
    if ((state.st_mode & (S_IWGRP | S_IWOTH)) && !sticky_directory) return PluginFault{Kind::writable_by_others, path, state.st_uid};
  }
  return std::nullopt;
}

}  // namespace dpbench
