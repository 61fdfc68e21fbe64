// Names of enum values for users, files and messages. Each enum has one table of names beside its definition.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace dpbench {

// The names of an enum's values, in the order of its declaration. Each enum specialises this table beside its
// definition.
template <class Enum>
inline constexpr std::nullptr_t enum_names = nullptr;

template <class Enum>
concept Named = requires { enum_names<Enum>.size(); };

template <Named Enum>
constexpr std::string_view word_of(Enum value) {
  return enum_names<Enum>[static_cast<size_t>(value)];
}

template <Named Enum>
std::string name_of(Enum value) {
  return std::string(word_of(value));
}

// Appends the value's name to a string.
template <Named Enum>
std::string operator+(const std::string& text, Enum value) {
  return text + name_of(value);
}
template <Named Enum>
std::string operator+(Enum value, const std::string& text) {
  return name_of(value) + text;
}

template <Named Enum>
std::ostream& operator<<(std::ostream& stream, Enum value) {
  return stream << word_of(value);
}

// Returns the enum value of this name; nullopt if no value has it.
template <Named Enum>
std::optional<Enum> parse_name(std::string_view word) {
  const auto& names = enum_names<Enum>;
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

template <Named Enum>
std::vector<std::string> names_list() {
  return {enum_names<Enum>.begin(), enum_names<Enum>.end()};
}

// Returns all names of an enum joined by `separator`: "a, b, c", or "a|b|c" for a flag's help.
template <Named Enum>
std::string all_names(const std::string& separator = ", ") {
  std::string all;
  for (const std::string_view name : enum_names<Enum>) all += (all.empty() ? "" : separator) + std::string(name);
  return all;
}

}  // namespace dpbench
