// Field tables: the members of a report struct, each with its key, unit and meaning. Writing, reading, the JSON Schema,
// range checks and the glossary are all generated from these tables (codec.h).
#pragma once

#include <limits>
#include <tuple>

namespace dpbench {

// Allowed range of a number, of each number in a list or map, or of the length of a string.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // excludes `least` itself
};
namespace range {
inline constexpr NumberRange any{}, not_negative{.least = 0}, positive{.least = 1}, share{.least = 0, .most = 1},
    above_zero{.least = 0, .above_least = true}, not_empty{.least = 1};
}

template <class T, class Member>
struct Field {
  const char* key;
  const char* unit;  // "-": no unit (names, strings, objects and lists of them)
  Member T::* member;
  const char* meaning;
  NumberRange limits = range::any;
  bool required = true;        // if false, an absent or null key leaves the member's default
  bool null_if_empty = false;  // strings only: "" is written as null
  bool omit_if_empty = false;  // lists only
};

// An optional key: older reports lack it, or not every report has it.
template <class T, class Member>
constexpr Field<T, Member> later(Field<T, Member> field) {
  field.required = false;
  return field;
}

// A string that is written as null when empty.
template <class T, class Member>
constexpr Field<T, Member> text_or_null(Field<T, Member> field) {
  field.null_if_empty = true;
  return later(field);
}

// A list that is omitted when empty.
template <class T, class Member>
constexpr Field<T, Member> unless_empty(Field<T, Member> field) {
  field.omit_if_empty = true;
  return later(field);
}

// Specialised beside each struct. Members: `name`, used in the schema, and `fields`, a tuple in writing order.
template <class T>
struct Table;

template <class T>
concept HasTable = requires { Table<T>::fields; };

}  // namespace dpbench
