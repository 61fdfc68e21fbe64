// Generates the JSON writer, JSON reader and JSON Schema of a report struct from its field table (field.h).
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/record/fields.h"
#include "workloads/base/names.h"

namespace dpbench {

template <class T>
struct OptionalOf : std::false_type {};
template <class T>
struct OptionalOf<std::optional<T>> : std::true_type {};
template <class T>
struct ListOf : std::false_type {};
template <class T>
struct ListOf<std::vector<T>> : std::true_type {};
template <class T>
struct MapOf : std::false_type {};
template <class T>
struct MapOf<std::map<std::string, T>> : std::true_type {};

// The functions below write structs as JSON.

template <class T>
Json write_value(const T& value);

// Adds the fields of a struct to a JSON object.
template <class T, class All = decltype(Table<T>::fields)>
void write_fields(const T& value, Json& json, const All& all = Table<T>::fields) {
  const auto add = [&](const auto& field) {
    if constexpr (requires { field.fields; }) {
      write_fields(value, json[field.key] = Json::object(), field.fields);
    } else {
      Json member = write_value(std::invoke(field.member, value));
      if (field.omit_if_empty && member.empty()) return;
      json[field.key] = field.null_if_empty && member == Json("") ? Json(nullptr) : std::move(member);
    }
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, all);
}

template <class T>
Json write_value(const T& value) {
  if constexpr (HasTable<T>) {
    Json json = Json::object();
    write_fields(value, json);
    return json;
  } else if constexpr (Named<T>) {
    return name_of(value);
  } else if constexpr (OptionalOf<T>::value) {
    return value ? write_value(*value) : Json(nullptr);
  } else if constexpr (ListOf<T>::value) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(write_value(item));
    return list;
  } else if constexpr (MapOf<T>::value) {
    Json json = Json::object();
    for (const auto& [name, item] : value) json[name] = write_value(item);
    return json;
  } else {
    return Json(value);
  }
}

// Returns a whole JSON document: its kind ("dpbench." and the table's name), its schema version, then the fields of its
// table.
template <class T>
Json write_document(const T& document) {
  Json json = {{"schema", std::string("dpbench.") + Table<T>::name},
               {"schema_version", {{"major", 1}, {"minor", Table<T>::minor_version}}}};
  json.update(write_value(document));
  return json;
}

// The functions below read structs from JSON and throw a UsageError that names the wrong key.

template <class T>
T read_value(const Json& json, const std::string& path);

template <class T, class All = decltype(Table<T>::fields)>
void read_fields(const Json& json, const std::string& path, T& value, const All& all = Table<T>::fields) {
  const Fields fields(json, path);
  const auto take = [&](const auto& field) {
    if constexpr (requires { field.fields; }) {
      read_fields(fields.at(field.key), fields.path(field.key), value, field.fields);
    } else if constexpr (std::is_member_object_pointer_v<decltype(field.member)>) {
      using Member = std::remove_reference_t<decltype(value.*field.member)>;
      const Json* found = fields.find(field.key);
      // The JSON may lack the key of a list or map, which is then empty.
      constexpr bool may_be_absent = ListOf<Member>::value || MapOf<Member>::value;
      if (!field.required && (!found || found->is_null())) return;
      if (may_be_absent && !found) return;
      value.*field.member = read_value<Member>(fields.at(field.key), fields.path(field.key));
    }
  };
  std::apply([&](const auto&... field) { (take(field), ...); }, all);
}

template <class T>
T read_value(const Json& json, const std::string& path) {
  if constexpr (HasTable<T>) {
    T value{};
    read_fields(json, path, value);
    return value;
  } else if constexpr (Named<T>) {
    const auto word = Fields::read<std::string>(json, path);
    if (const auto value = parse_name<T>(word)) return *value;
    throw UsageError(path + " is '" + word + "', not one of " + all_names<T>());
  } else if constexpr (OptionalOf<T>::value) {
    if (json.is_null()) return std::nullopt;
    return read_value<typename T::value_type>(json, path);
  } else if constexpr (ListOf<T>::value) {
    if (!json.is_array()) throw UsageError(path + " is not an array");
    T list;
    for (size_t i = 0; i < json.size(); ++i)
      list.push_back(read_value<typename T::value_type>(json[i], path + "[" + std::to_string(i) + "]"));
    return list;
  } else if constexpr (MapOf<T>::value) {
    if (!json.is_object()) throw UsageError(path + " is not an object");
    T values;
    for (const auto& [name, item] : json.items())
      values[name] = read_value<typename T::mapped_type>(item, path + "." + name);
    return values;
  } else if constexpr (std::is_same_v<T, Json>) {
    if (!json.is_object()) throw UsageError(path + " is not an object");
    return json;
  } else {
    return Fields::read<T>(json, path);
  }
}

// The functions below generate the JSON Schema, in which each struct is one definition.

inline void limit(Json& type, const NumberRange& range) {
  const auto number = [](double value) {
    return std::trunc(value) == value ? Json(static_cast<int64_t>(value)) : Json(value);
  };
  if (std::isfinite(range.least)) type[range.above_least ? "exclusiveMinimum" : "minimum"] = number(range.least);
  if (std::isfinite(range.most)) type["maximum"] = number(range.most);
}

template <class T>
Json schema_of(const NumberRange& range, Json& definitions);

// Returns the JSON Schema of a struct's fields. The caller may add properties to it.
template <class T, class All = decltype(Table<T>::fields)>
Json schema_of_fields(Json& definitions, const All& all = Table<T>::fields) {
  Json required = Json::array(), properties = Json::object();
  const auto add = [&](const auto& field) {
    if constexpr (requires { field.fields; }) {
      properties[field.key] = {{"type", "object"}, {"description", field.meaning}};
      properties[field.key].update(schema_of_fields<T>(definitions, field.fields));
      required.push_back(field.key);
    } else {
      using Member = std::remove_cvref_t<std::invoke_result_t<decltype(field.member), const T&>>;
      Json type = schema_of<Member>(field.limits, definitions);
      // An optional struct with omit_if_empty has no key in the JSON if it is empty, so the schema does not allow null
      // for it.
      if (field.omit_if_empty && type.contains("oneOf")) type = Json(type["oneOf"][1]);
      if (field.null_if_empty) type["type"] = {"string", "null"};
      // Allow null for an optional floating-point number, because a non-finite number is written as null.
      if (std::is_floating_point_v<Member> && !field.required) type["type"] = {"number", "null"};
      if (std::string_view(field.unit) != "-") type["unit"] = field.unit;
      if (*field.meaning) type["description"] = field.meaning;
      properties[field.key] = std::move(type);
      if (field.required) required.push_back(field.key);
    }
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, all);
  return {{"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
}

template <class T>
Json schema_of(const NumberRange& range, Json& definitions) {
  if constexpr (HasTable<T>) {
    if (!definitions.contains(Table<T>::name)) {
      // Reserve the struct's place before its members' definitions are added, so that definitions stand in order of
      // first use.
      definitions[Table<T>::name] = nullptr;
      definitions[Table<T>::name] = schema_of_fields<T>(definitions);
    }
    return {{"$ref", "#/$defs/" + std::string(Table<T>::name)}};
  } else if constexpr (Named<T>) {
    Json names = Json::array();
    for (const std::string_view name : enum_names<T>) names.push_back(name);
    return {{"enum", std::move(names)}};
  } else if constexpr (OptionalOf<T>::value) {
    Json type = schema_of<typename T::value_type>(range, definitions);
    if (type.contains("type"))
      type["type"] = {type["type"], "null"};
    else
      type = {{"oneOf", {{{"type", "null"}}, type}}};
    return type;
  } else if constexpr (ListOf<T>::value) {
    return {{"type", "array"}, {"items", schema_of<typename T::value_type>(range, definitions)}};
  } else if constexpr (MapOf<T>::value) {
    return {{"type", "object"}, {"additionalProperties", schema_of<typename T::mapped_type>(range, definitions)}};
  } else if constexpr (std::is_same_v<T, Json>) {
    return {{"type", "object"}, {"additionalProperties", true}};
  } else {
    Json type = {{"type", std::is_same_v<T, std::string> ? "string"
                          : std::is_same_v<T, bool>      ? "boolean"
                          : std::is_floating_point_v<T>  ? "number"
                                                         : "integer"}};
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) limit(type, range);
    if (std::is_same_v<T, std::string> && range.least > 0) type["minLength"] = static_cast<int64_t>(range.least);
    if (range.pattern) type["pattern"] = range.pattern;
    return type;
  }
}

}  // namespace dpbench
