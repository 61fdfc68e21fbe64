#include "harness/report/validate/schema.h"

#include <algorithm>

#include "harness/report/judge/compare_document.h"
#include "harness/report/judge/duel_report.h"
#include "harness/report/judge/tuning.h"
#include "harness/report/machine/env_block.h"
#include "harness/report/record/codec.h"
#include "harness/report/record/report.h"
#include "harness/report/text/pattern.h"

namespace dpbench {
namespace {

// Hand-written parts of the JSON Schemas, which no field table describes.

// JSON Schema of the keys that `dpbench tune` adds to the configuration of run.json.
constexpr const char* tune_results = R"json({
  "judged_from_launch": {
    "type": "integer", "minimum": 0, "description": "tune: first launch that judged the last candidates"
  },
  "tuned": {
    "type": "array", "items": {"$ref": "#/$defs/tuned"}, "description": "tune: the last candidate of each setting"
  }
})json";

constexpr const char* shared_definitions = R"json({
  "schema_version": {
    "type": "object",
    "required": ["major", "minor"],
    "properties": {
      "major": {"const": 1, "description": "readers accept only their own major version"},
      "minor": {"type": "integer", "minimum": 0, "description": "minor versions only add keys"}
    }
  },
  "tool": {
    "type": "object",
    "required": ["name", "version", "commit", "argv"],
    "properties": {
      "name": {"const": "dpbench", "description": "name of the program"},
      "version": {"type": "string", "minLength": 1, "description": "version of dpbench"},
      "commit": {"type": "string", "minLength": 1, "description": "commit of dpbench's sources; -dirty: with changes"},
      "compiler": {"type": "string", "description": "compiler that built dpbench"},
      "build_type": {"type": "string", "description": "CMake build type"},
      "directory_commit": {
        "type": ["string", "null"],
        "description": "commit of the repository in the working directory; -dirty: with changes; null: none"
      },
      "argv": {"type": "array", "items": {"type": "string"}, "description": "arguments of the command line"}
    }
  }
})json";

// Schema rule for cases: an ok case has no failed check, and a case that is not ok has no step time.
constexpr const char* case_rule = R"json([{
  "if": {"properties": {"status": {"const": "ok"}}},
  "then": {"properties": {"checks": {"items": {"properties": {"status": {"enum": ["passed", "skipped"]}}}}}},
  "else": {"properties": {"stats": {"properties": {"step_time_ns": {"type": "null"}}}}}
}])json";

constexpr const char* duel_skeleton = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "urn:dpbench:schema:duel-1",
  "title": "dpbench duel of two builds, major version 1",
  "description": "duel.json. Unknown values are null. Minor versions only add keys; readers ignore unknown keys.",
  "type": "object",
  "required": [
    "schema", "schema_version", "id", "status", "gate", "tool", "env", "config", "rule", "base", "new", "cases"
  ],
  "properties": {
    "schema": {"const": "dpbench.duel"},
    "schema_version": {"$ref": "#/$defs/schema_version"},
    "id": {"type": "string", "minLength": 1},
    "status": {"enum": []},
    "order_seed": {
      "type": ["integer", "null"],
      "minimum": 1,
      "description": "random seed for the order of builds within pairs and of cases; since 1.1"
    },
    "gate": {"enum": []},
    "tool": {"$ref": "#/$defs/tool"},
    "env": {"$ref": "#/$defs/env"},
    "config": {"type": "object", "additionalProperties": true},
    "rule": {},
    "base": {"$ref": "#/$defs/build"},
    "new": {"$ref": "#/$defs/build"},
    "cases": {"type": "array", "items": {"$ref": "#/$defs/case"}},
    "added": {"type": "array", "items": {"type": "string"}, "description": "cases that only the new build has"},
    "gone": {"type": "array", "items": {"type": "string"}, "description": "cases that only the base build has"}
  },
  "$defs": {}
})json";

// Outer structure of the JSON Schemas that are generated from field tables: those of `dpbench compare`, `plan` and
// `project` with -o json.
constexpr const char* document_skeleton = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "",
  "title": "",
  "description": "Unknown values are null. Minor versions only add keys; readers ignore unknown keys.",
  "type": "object",
  "required": ["schema", "schema_version"],
  "properties": {
    "schema": {"const": "", "description": "the kind of document"},
    "schema_version": {"$ref": "#/$defs/schema_version"}
  },
  "$defs": {}
})json";

constexpr const char* duel_results = R"json({
  "status": {
    "enum": [], "description": "wrong: a check of the new build failed; unmeasured: a check of the base build failed"
  },
  "reason": {"type": ["string", "null"], "description": "why the status is not ok, or why the verdict is unclear"},
  "verdict": {"enum": [], "description": "verdict on the new build; null if the status is not ok"},
  "look": {
    "type": ["object", "null"],
    "required": [
      "pairs", "change_percent", "ci95_low_percent", "ci95_high_percent", "noise_percent", "p_slower", "p_faster",
      "p_same"
    ],
    "properties": {
      "pairs": {"type": "integer", "minimum": 1},
      "launches": {"type": "integer", "minimum": 1, "description": "launches that measured the pairs"},
      "change_percent": {"type": "number", "description": "median of new / base - 1, in percent"},
      "ci95_low_percent": {"type": "number"},
      "ci95_high_percent": {"type": "number"},
      "noise_percent": {
        "type": "number",
        "minimum": 0,
        "description": "1.4826 * median absolute deviation of the pairs' log(new / base), in percent"
      },
      "p_slower": {"type": "number", "minimum": 0, "maximum": 1.000001},
      "p_faster": {"type": "number", "minimum": 0, "maximum": 1.000001},
      "p_same": {"type": "number", "minimum": 0, "maximum": 1.000001}
    }
  },
  "steps_per_block": {"type": "integer", "minimum": 0},
  "launches": {
    "type": "array",
    "description": "launches, each with new processes of both builds",
    "items": {
      "type": "object",
      "required": ["pairs"],
      "properties": {"pairs": {"type": "array", "items": {"$ref": "#/$defs/pair"}}}
    }
  },
  "base_checks": {"type": "array", "items": {"$ref": "#/$defs/check"}},
  "new_checks": {"type": "array", "items": {"$ref": "#/$defs/check"}},
  "warnings": {"type": "array", "items": {"type": "string"}}
})json";

template <Named Enum>
Json enum_values() {
  Json unused;
  return schema_of<Enum>(range::any, unused)["enum"];
}

// Returns the JSON Schema of a case: the fields of CaseSpec, then the results.
Json case_definition(const Json& results, Json& definitions) {
  Json schema = schema_of_fields<CaseSpec>(definitions);
  schema["properties"].update(results.at("properties"));
  for (const Json& key : results.at("required")) schema["required"].push_back(key);
  return schema;
}

// Returns the definitions that the schemas of run.json and duel.json share.
Json common_definitions() {
  Json definitions = Json::parse(shared_definitions);
  schema_of<EnvBlock>(range::any, definitions);
  definitions["env"]["properties"]["fingerprint"]["pattern"] = "^[0-9a-f]{8}$";
  return definitions;
}

}  // namespace

Json run_schema() {
  Json definitions = common_definitions();
  // Reserve the place of the type "case" in front of the types of its fields, which must be added before it.
  definitions["case"] = nullptr;
  schema_of<CheckRow>(range::any, definitions);
  schema_of<Summary>(range::any, definitions);
  schema_of<Derived>(range::any, definitions);
  schema_of<LaunchRecord>(range::any, definitions);
  schema_of<MemoryFormula>(range::any, definitions);
  schema_of<TrainingRecord>(range::any, definitions);
  schema_of<Answer>(range::any, definitions);
  schema_of<Tuned>(range::any, definitions);
  definitions["case"] = case_definition(schema_of_fields<CaseRecord>(definitions), definitions);
  definitions["case"]["allOf"] = Json::parse(case_rule);
  Json fields = schema_of_fields<Report>(definitions), &properties = fields["properties"];
  for (const std::string block : {"tool", "env"}) properties[block] = {{"$ref", "#/$defs/" + block}};
  properties["config"]["properties"] = Json::parse(tune_results);
  properties["cases"] = {{"type", "array"}, {"items", {{"$ref", "#/$defs/case"}}}};
  fields["required"].push_back("cases");
  Json schema = document_schema(Table<Report>::name, Table<Report>::title, fields, definitions);
  schema["description"] = "run.json. " + schema["description"].get<std::string>();
  return schema;
}

Json duel_schema() {
  Json schema = Json::parse(duel_skeleton), &definitions = schema["$defs"];
  definitions = common_definitions();
  schema["properties"]["status"]["enum"] = enum_values<RunStatus>();
  schema["properties"]["gate"]["enum"] = enum_values<GateResult>();
  schema["properties"]["rule"] = schema_of_fields<DuelRule>(definitions);
  definitions["case"] = case_definition({{"required", {"status", "verdict", "look", "steps_per_block", "launches"}},
                                         {"properties", Json::parse(duel_results)}},
                                        definitions);
  definitions["case"]["properties"]["status"]["enum"] = enum_values<DuelStatus>();
  Json& verdict = definitions["case"]["properties"]["verdict"]["enum"] = enum_values<Verdict>();
  verdict.push_back(nullptr);
  schema_of<DuelPair>(range::any, definitions);
  schema_of<CheckRow>(range::any, definitions);
  schema_of<DuelBuild>(range::any, definitions);
  return schema;
}

Json compare_schema() { return document_schema<CompareDocument>(); }

Json document_schema(const std::string& name, const std::string& title, const Json& fields, const Json& definitions) {
  Json schema = Json::parse(document_skeleton);
  schema["$id"] = "urn:dpbench:schema:" + name + "-1";
  schema["title"] = title;
  schema["properties"]["schema"]["const"] = "dpbench." + name;
  for (const Json& key : fields.at("required")) schema["required"].push_back(key);
  schema["properties"].update(fields.at("properties"));
  schema["$defs"]["schema_version"] = Json::parse(shared_definitions).at("schema_version");
  schema["$defs"].update(definitions);
  return schema;
}

namespace {

class Checker {
 public:
  explicit Checker(const Json& schema) : definitions_(schema.at("$defs")) {}

  void visit(const Json& value, const Json& schema, const std::string& path) {
    if (const auto reference = schema.find("$ref"); reference != schema.end())
      // Remove the prefix "#/$defs/" (8 characters) from the reference, which leaves the type's name.
      return visit(value, definitions_.at(reference->get<std::string>().substr(8)), path);
    if (const auto either = schema.find("oneOf"); either != schema.end())
      return value.is_null() ? void() : visit(value, either->at(1), path);
    if (const auto type = schema.find("type"); type != schema.end() && !has_type(value, *type))
      return report(path, value, "not " + type_text(*type));
    if (const auto constant = schema.find("const"); constant != schema.end() && value != *constant)
      return report(path, value, "not " + constant->dump());
    if (const auto names = schema.find("enum");
        names != schema.end() && std::find(names->begin(), names->end(), value) == names->end())
      return report(path, value, "not one of " + names->dump());
    if (value.is_number()) number(value, schema, path);
    if (value.is_string()) text(value, schema, path);
    if (value.is_array() && schema.contains("items"))
      for (size_t i = 0; i < value.size(); ++i)
        visit(value[i], schema.at("items"), path + "[" + std::to_string(i) + "]");
    if (value.is_object()) object(value, schema, path);
  }

  std::vector<std::string> found;

 private:
  static bool has_type(const Json& value, const Json& type) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(), [&](const Json& one) { return has_type(value, one); });
    const auto name = type.get<std::string>();
    if (name == "integer") return value.is_number_integer();
    return name == (value.is_number() ? "number" : value.type_name());
  }
  static std::string type_text(const Json& type) { return type.is_string() ? type.get<std::string>() : type.dump(); }

  void report(const std::string& path, const Json& value, const std::string& problem) {
    found.push_back(path + " is " + (value.is_structured() ? value.type_name() : value.dump()) + ", " + problem);
  }
  void number(const Json& value, const Json& schema, const std::string& path) {
    const auto x = value.get<double>();
    const auto bound = [&](const char* key, auto holds, const char* problem) {
      const auto limit = schema.find(key);
      if (limit != schema.end() && !holds(limit->get<double>())) report(path, value, problem + limit->dump());
    };
    bound("minimum", [&](double least) { return x >= least; }, "not at least ");
    bound("exclusiveMinimum", [&](double least) { return x > least; }, "not above ");
    bound("maximum", [&](double most) { return x <= most; }, "not at most ");
  }
  void text(const Json& value, const Json& schema, const std::string& path) {
    const auto content = value.get<std::string>();
    if (content.empty() && schema.contains("minLength")) report(path, value, "not a name");
    if (schema.contains("pattern") && !NamePattern(schema.at("pattern").get<std::string>()).matches(content))
      report(path, value, "not of the form " + schema.at("pattern").get<std::string>());
  }
  void object(const Json& value, const Json& schema, const std::string& path) {
    for (const Json& key : schema.value("required", Json::array()))
      if (!value.contains(key.get<std::string>())) found.push_back(path + "." + key.get<std::string>() + " is missing");
    const Json properties = schema.value("properties", Json::object());
    const auto others = schema.find("additionalProperties");
    for (const auto& [key, item] : value.items())
      if (const auto property = properties.find(key); property != properties.end())
        visit(item, *property, path + "." + key);
      else if (others != schema.end() && others->is_object())
        visit(item, *others, path + "." + key);
  }

  const Json& definitions_;
};

// Returns the glossary text for a JSON key without a description: a reference to the glossary section of its type.
std::string meaning_of(const Json& property) {
  const Json& type = property.contains("items") ? property.at("items") : property;
  return type.contains("$ref") ? "see " + type.at("$ref").get<std::string>().substr(8) : "";
}

}  // namespace

std::string glossary() {
  const Json schema = run_schema();
  std::string text =
      "# Keys of run.json\n\nGenerated by `dpbench schema glossary` from the tables that define run.json. The unit `-` "
      "means none: a name, a string, an object or a list of them.\n";
  const auto section = [&](const std::string& title, const Json& properties) {
    text += "\n## " + title + "\n\n| key | unit | meaning |\n|---|---|---|\n";
    for (const auto& [key, property] : properties.items())
      text += "| `" + key + "` | " + property.value("unit", "-") + " | " +
              property.value("description", meaning_of(property)) + " |\n";
  };
  section("run.json", schema.at("properties"));
  for (const auto& [name, definition] : schema.at("$defs").items()) section(name, definition.at("properties"));
  return text;
}

std::vector<std::string> schema_problems(const Json& document, const Json& schema) {
  Checker checker(schema);
  checker.visit(document, schema, "report");
  return std::move(checker.found);
}

}  // namespace dpbench
