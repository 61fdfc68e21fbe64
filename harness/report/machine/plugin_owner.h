// Decides if a plug-in (a third-party shared library) may be loaded. A plug-in runs with this user's rights, so only
// this user and root may be able to change or replace its file.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace dpbench {

struct PluginFault {
  enum class Kind { missing, of_another_user, writable_by_others } kind;
  std::filesystem::path path;  // the faulty path: the plug-in's file or its folder
  uid_t owner = 0;
};

// Returns why the plug-in must not be loaded, or nullopt if it may be. The file and its folder must belong to this user
// or root (an owner can always change the mode) and must not be writable by others. A sticky folder such as /tmp is
// accepted. The front (the dpbench process) and the worker both check this.
std::optional<PluginFault> fault_of_plugin(const std::filesystem::path& file);

// Returns the text of a fault, to follow the plug-in's name in a message: "refused because ..." with a remedy, or
// "cannot access PATH".
std::string describe(const PluginFault& fault);

}  // namespace dpbench
