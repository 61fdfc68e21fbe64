// Tables of fields: what a struct of a report holds, each field with its key, unit and meaning. Writing, reading, the
// JSON Schema, its range checks and the glossary all come from the table (codec.h).
#pragma once

#include <limits>
#include <tuple>

namespace dpbench {

// Of a number, and of each number in a list or map; of a text its length.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // least itself is not allowed
};
namespace range {
inline constexpr NumberRange any{}, not_negative{.least = 0}, positive{.least = 1}, share{.least = 0, .most = 1},
    above_zero{.least = 0, .above_least = true}, not_empty{.least = 1};
}

template <class T, class Member>
struct Field {
  const char* key;
  const char* unit;  // "-": a name, a text or a list of them
  Member T::* member;
  const char* meaning;
  NumberRange limits = range::any;
  bool required = true;        // else an absent key, or null, reads as the member's default
  bool null_if_empty = false;  // of a text
  bool omit_if_empty = false;  // of a list
};

// A key that older reports lack, or that not every report has.
template <class T, class Member>
constexpr Field<T, Member> later(Field<T, Member> field) {
  field.required = false;
  return field;
}

// A text that is written as null when there is none.
template <class T, class Member>
constexpr Field<T, Member> text_or_null(Field<T, Member> field) {
  field.null_if_empty = true;
  return later(field);
}

// A list that is left out when it is empty.
template <class T, class Member>
constexpr Field<T, Member> unless_empty(Field<T, Member> field) {
  field.omit_if_empty = true;
  return later(field);
}

// Specialised beside each struct: `name` in the schema, and `fields`, a tuple in the order in which they are written.
template <class T>
struct Table;

template <class T>
concept HasTable = requires { Table<T>::fields; };

}  // namespace dpbench
