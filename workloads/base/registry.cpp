#include "workloads/base/registry.h"

#include <exception>
#include <utility>
#include <vector>

namespace dpbench {
namespace {

std::vector<std::string>& errors() {
  static std::vector<std::string> all;
  return all;
}

}  // namespace

void register_or_note(const std::function<void()>& add) {
  try {
    add();
  } catch (const std::exception& error) {
    errors().emplace_back(error.what());
  }
}

void require_valid_registrations(const std::string& origin) {
  std::string text;
  for (const std::string& error : std::exchange(errors(), {})) text += (text.empty() ? "" : "; ") + error;
  if (!text.empty()) throw UsageError(origin + ": " + text);
}

void require_field(bool set, const std::string& kind, const std::string& name, const std::string& field) {
  if (!set) throw UsageError(kind + " '" + name + "' is registered without ." + field);
}

}  // namespace dpbench
