// Decides if a plug-in may be loaded. It runs as this user, so only this user and root may be able to change or replace
// it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace dpbench {

struct PluginFault {
  enum class Kind { missing, of_another_user, writable_by_others } kind;
  std::filesystem::path path;  // the file, or its folder
  uid_t owner = 0;
};

// Returns nullopt if the plug-in may be loaded. The file and its folder must belong to this user or root, since an
// owner can always change the mode, and must not be writable by others. A sticky folder such as /tmp is accepted. Both
// the front and the worker check this.
std::optional<PluginFault> fault_of_plugin(const std::filesystem::path& file);

// Returns "refused because ..." with a remedy, to follow the name of the flag.
std::string describe(const PluginFault& fault);

}  // namespace dpbench
