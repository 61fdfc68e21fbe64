// Typed reading of a JSON object. Every error names the path of the JSON key, which begins with the path given to the
// constructor. Unknown keys are ignored.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/report/record/protocol.h"
#include "workloads/base/error.h"

namespace dpbench {

class Fields {
 public:
  Fields(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) throw UsageError(path_ + " is not an object");
  }

  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& at(const char* key) const {
    if (const Json* value = find(key)) return *value;
    throw UsageError(path(key) + " is missing");
  }
  template <class T>
  T get(const char* key) const {
    return read<T>(at(key), path(key));
  }
  // Returns the key's value, or nullopt if the key is absent or null (an unknown value).
  template <class T>
  std::optional<T> maybe(const char* key) const {
    const Json* value = find(key);
    if (!value || value->is_null()) return std::nullopt;
    return read<T>(*value, path(key));
  }
  template <class T>
  T get_or(const char* key, T fallback) const {
    return maybe<T>(key).value_or(std::move(fallback));
  }
  // Calls use(item, path) for each item of the array at `key`. An absent key counts as an empty array.
  template <class Use>
  void each(const char* key, Use use) const {
    const Json* list = find(key);
    if (!list) return;
    if (!list->is_array()) throw UsageError(path(key) + " is not an array");
    for (size_t i = 0; i < list->size(); ++i) use((*list)[i], path(key) + "[" + std::to_string(i) + "]");
  }
  // Calls use(name, value, path) for each member of the object at `key`. An absent key counts as an empty object.
  template <class Use>
  void each_member(const char* key, Use use) const {
    const Json* members = find(key);
    if (!members) return;
    if (!members->is_object()) throw UsageError(path(key) + " is not an object");
    for (const auto& [name, value] : members->items()) use(name, value, path(key) + "." + name);
  }
  std::string path(const char* key) const { return path_ + "." + key; }

  template <class T>
  static T read(const Json& value, const std::string& path) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (value.is_string()) return value.get<std::string>();
      throw UsageError(path + " is not a string");
    } else if constexpr (std::is_same_v<T, bool>) {
      if (value.is_boolean()) return value.get<bool>();
      throw UsageError(path + " is neither true nor false");
    } else if constexpr (std::is_floating_point_v<T>) {
      if (value.is_number()) return value.get<T>();
      throw UsageError(path + " is not a number");
    } else {
      return read_integer<T>(value, path);
    }
  }

 private:
  template <class T>
  static T read_integer(const Json& value, const std::string& path) {
    using Limits = std::numeric_limits<T>;
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(Limits::max()))
      return static_cast<T>(value.get<uint64_t>());
    if (value.is_number_integer() && !value.is_number_unsigned()) {
      const int64_t number = value.get<int64_t>();
      const bool fits = std::is_signed_v<T> ? number >= static_cast<int64_t>(Limits::min()) : number >= 0;
      if (fits) return static_cast<T>(number);
    }
    throw UsageError(path + " is not an integer in range");
  }

  const Json& json_;
  std::string path_;
};

template <class T>
std::vector<T> list_of(const Fields& fields, const char* key) {
  std::vector<T> values;
  fields.each(key, [&](const Json& item, const std::string& path) { values.push_back(Fields::read<T>(item, path)); });
  return values;
}

}  // namespace dpbench
