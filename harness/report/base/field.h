// Field tables list the members of a report struct, each with its JSON key, unit and meaning. The JSON writer and
// reader, the JSON Schema, the range checks and the glossary are all generated from these tables (codec.h).
#pragma once

#include <limits>
#include <tuple>
#include <type_traits>

namespace dpbench {

// Allowed range of a number, of each number in a list or map, or of the length of a string, and the form of a string.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above_least = false;       // true: the lower limit `least` itself is not allowed
  const char* pattern = nullptr;  // regular expression that a string must match
};
namespace range {
inline constexpr NumberRange any{}, not_negative{.least = 0}, positive{.least = 1}, share{.least = 0, .most = 1},
    above_zero{.least = 0, .above_least = true}, not_empty{.least = 1},
    utc_time{.pattern = R"(^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$)"};
}

template <class T, class Member>
struct Field {
  const char* key;
  const char* unit;  // unit in the glossary; "-": none (names, strings, objects and lists of them)
  // Data member of the struct, or a const member function: its result is written to the JSON, but not read back.
  Member T::* member;
  const char* meaning;
  NumberRange limits = range::any;
  bool required = true;        // false: if the JSON lacks the key or has null, the member keeps its default
  bool null_if_empty = false;  // strings only: "" is written as null
  bool omit_if_empty = false;  // lists and optionals only: an empty one has no key in the JSON
  bool per_block = false;      // lists only: one number per timed block
};

// Fields of a struct that its JSON keeps in a nested object, which is always present.
template <class... Fields>
struct FieldGroup {
  const char* key;
  const char* meaning;
  std::tuple<Fields...> fields;
};

// Marks a JSON key as optional, because older reports or some kinds of report do not have it.
template <class T, class Member>
constexpr Field<T, Member> later(Field<T, Member> field) {
  field.required = false;
  return field;
}

// Marks a string field that is written to JSON as null when empty.
template <class T, class Member>
constexpr Field<T, Member> text_or_null(Field<T, Member> field) {
  field.null_if_empty = true;
  return later(field);
}

// Marks a field that is a list or an optional. Its key is left out of the JSON if it is empty.
template <class T, class Member>
constexpr Field<T, Member> unless_empty(Field<T, Member> field) {
  field.omit_if_empty = true;
  return later(field);
}

// Marks a list that has one number per timed block.
template <class T, class Member>
constexpr Field<T, Member> per_block(Field<T, Member> field) {
  field.per_block = true;
  return field;
}

// Returns the fields whose member is declared in T, out of the fields of a struct that derives from T.
template <class T, class... Fields>
constexpr auto fields_of(const std::tuple<Fields...>& all) {
  const auto if_own = []<class Owner, class Member>(const Field<Owner, Member>& field) {
    if constexpr (std::is_same_v<Owner, T>)
      return std::tuple(field);
    else
      return std::tuple();
  };
  return std::apply([&](const auto&... field) { return std::tuple_cat(if_own(field)...); }, all);
}

// The field table of a report struct, specialised next to that struct. Members: `name`, used in the JSON Schema, and
// `fields`, a tuple of fields and groups in writing order. The table of a whole document (write_document() in codec.h)
// also has its `title` and `minor_version`.
template <class T>
struct Table;

template <class T>
concept HasTable = requires { Table<T>::fields; };

}  // namespace dpbench
