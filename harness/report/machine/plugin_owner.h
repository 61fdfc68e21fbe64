// Whose plug-ins may be loaded: one runs code as this user, so nobody but this user and root may change it or put
// another in its place.
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

// Nothing: it may be loaded. By the mode, or because it is theirs: an owner may always change the mode. A folder in
// which nobody may replace the files of others, such as /tmp, will do. The front and the worker ask, each for itself.
std::optional<PluginFault> fault_of_plugin(const std::filesystem::path& file);

// "refused because ..., and what to do", to stand behind the flag.
std::string text_of(const PluginFault& fault);

}  // namespace dpbench
