#include "harness/report/validate/schema.h"

#include <algorithm>
#include <regex>

#include "harness/report/judge/duel_report.h"
#include "harness/report/machine/env_block.h"
#include "harness/report/record/codec.h"
#include "harness/report/record/report.h"

namespace dpbench {
namespace {

// The shapes that no table has: how the tables' structs stand together in a document.
constexpr const char* run_skeleton = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "urn:dpbench:schema:run-1",
  "title": "A report of dpbench, major version 1",
  "description": "run.json. What is not known is null. Minor versions only add keys: readers ignore those they do not know.",
  "type": "object",
  "required": ["schema", "schema_version", "id", "status", "tool", "env", "config", "cases"],
  "properties": {
    "schema": {"const": "dpbench.run"},
    "schema_version": {"$ref": "#/$defs/schema_version"},
    "id": {"type": "string", "minLength": 1, "description": "<UTC time>-<commit>-<machine>: the name of the run's directory"},
    "status": {"enum": [], "description": "interrupted until all planned cases were tried"},
    "tool": {"$ref": "#/$defs/tool"},
    "env": {"$ref": "#/$defs/env"},
    "config": {"type": "object", "additionalProperties": true, "description": "the options as they were resolved, by the names of flags"},
    "cases": {"type": "array", "items": {"$ref": "#/$defs/case"}}
  },
  "$defs": {}
})json";

constexpr const char* shared_definitions = R"json({
  "schema_version": {
    "type": "object",
    "required": ["major", "minor"],
    "properties": {
      "major": {"const": 1, "description": "a reader accepts its own"},
      "minor": {"type": "integer", "minimum": 0, "description": "a minor version only adds keys"}
    }
  },
  "tool": {
    "type": "object",
    "required": ["name", "version", "commit", "argv"],
    "properties": {
      "name": {"const": "dpbench", "description": "the program"},
      "version": {"type": "string", "minLength": 1, "description": "of the program"},
      "commit": {"type": "string", "minLength": 1, "description": "of dpbench's own sources"},
      "compiler": {"type": "string", "description": "that built it"},
      "build_type": {"type": "string", "description": "of CMake"},
      "directory_commit": {"type": ["string", "null"], "description": "of the repository that dpbench was called in"},
      "argv": {"type": "array", "items": {"type": "string"}, "description": "words of the command line"}
    }
  }
})json";

// What stands in a case of run.json beside the fields of its specification.
constexpr const char* case_results = R"json({
  "status": {"enum": [], "description": "wrong: a check failed"},
  "reason": {"type": "string", "description": "why it is not ok"},
  "checks": {"type": "array", "items": {"$ref": "#/$defs/check"}, "description": "of its mathematics"},
  "stats": {
    "type": "object",
    "required": ["step_time_ns"],
    "properties": {"step_time_ns": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/summary"}], "description": "null for a case without a speed"}}
  },
  "phases": {
    "type": "object",
    "required": ["mean_step_ns"],
    "properties": {
      "mean_step_ns": {"type": "object", "additionalProperties": {"type": "number"}, "unit": "ns", "description": "by phase: mean over the ranks of all launches"},
      "watched_step_ns": {"type": ["number", "null"], "exclusiveMinimum": 0, "unit": "ns", "description": "what they add up to; since 1.2"}
    }
  },
  "derived": {"$ref": "#/$defs/derived"},
  "training": {"$ref": "#/$defs/training"},
  "warnings": {"type": "array", "items": {"type": "string"}, "description": "what was noticed while it ran"},
  "notices": {"type": "array", "items": {"type": "string"}, "description": "what its samples say: outliers, trends"},
  "launches": {"type": "array", "items": {"$ref": "#/$defs/launch"}, "description": "fresh starts of its processes"}
})json";

// A case with a speed has no failed check, one that is not ok has no speed.
constexpr const char* case_rule = R"json([{
  "if": {"properties": {"status": {"const": "ok"}}},
  "then": {"properties": {"checks": {"items": {"properties": {"status": {"enum": ["passed", "skipped"]}}}}}},
  "else": {"properties": {"stats": {"properties": {"step_time_ns": {"type": "null"}}}}}
}])json";

constexpr const char* duel_skeleton = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "urn:dpbench:schema:duel-1",
  "title": "A duel of two builds, major version 1",
  "description": "duel.json. What is not known is null. Minor versions only add keys: readers ignore those they do not know.",
  "type": "object",
  "required": ["schema", "schema_version", "id", "status", "gate", "tool", "env", "config", "rule", "base", "new", "cases"],
  "properties": {
    "schema": {"const": "dpbench.duel"},
    "schema_version": {"$ref": "#/$defs/schema_version"},
    "id": {"type": "string", "minLength": 1},
    "status": {"enum": []},
    "order_seed": {"type": ["integer", "null"], "minimum": 1, "description": "of which build comes first in a pair, and of the order of cases; since 1.1"},
    "gate": {"enum": ["passed", "failed", "inconclusive"]},
    "tool": {"$ref": "#/$defs/tool"},
    "env": {"$ref": "#/$defs/env"},
    "config": {"type": "object", "additionalProperties": true},
    "rule": {
      "type": "object",
      "required": ["looks", "alpha", "least_percent", "same_within_percent", "most_noise_percent"],
      "properties": {
        "looks": {"type": "array", "items": {"type": "integer", "minimum": 1}, "description": "numbers of pairs at which a case is judged"},
        "alpha": {"type": "number", "exclusiveMinimum": 0, "description": "of a look; divided by the number of cases"},
        "least_percent": {"type": "number", "exclusiveMinimum": 0, "description": "a smaller change is none"},
        "same_within_percent": {"type": "number", "exclusiveMinimum": 0, "description": "surely less than this is the same"},
        "most_noise_percent": {"type": "number", "exclusiveMinimum": 0, "description": "of pairs: beyond it nothing is judged"}
      }
    },
    "base": {"$ref": "#/$defs/build"},
    "new": {"$ref": "#/$defs/build"},
    "cases": {"type": "array", "items": {"$ref": "#/$defs/case"}},
    "added": {"type": "array", "items": {"type": "string"}, "description": "cases of the new build alone"},
    "gone": {"type": "array", "items": {"type": "string"}, "description": "cases of the base build alone"}
  },
  "$defs": {}
})json";

constexpr const char* duel_results = R"json({
  "status": {"enum": [], "description": "wrong: the new build; unmeasured: the base build is wrong"},
  "reason": {"type": ["string", "null"], "description": "why it is not ok, or why it is unclear"},
  "verdict": {"enum": [], "description": "of a case that is ok, else null"},
  "look": {
    "type": ["object", "null"],
    "required": ["pairs", "change_percent", "ci95_low_percent", "ci95_high_percent", "noise_percent", "p_slower", "p_faster", "p_same"],
    "properties": {
      "pairs": {"type": "integer", "minimum": 1},
      "launches": {"type": "integer", "minimum": 1, "description": "that the pairs came from"},
      "change_percent": {"type": "number", "description": "median of new / base"},
      "ci95_low_percent": {"type": "number"},
      "ci95_high_percent": {"type": "number"},
      "noise_percent": {"type": "number", "minimum": 0, "description": "of a pair: 1.4826 mad of log(new / base)"},
      "p_slower": {"type": "number", "minimum": 0, "maximum": 1.000001},
      "p_faster": {"type": "number", "minimum": 0, "maximum": 1.000001},
      "p_same": {"type": "number", "minimum": 0, "maximum": 1.000001}
    }
  },
  "steps_per_block": {"type": "integer", "minimum": 0},
  "launches": {
    "type": "array",
    "description": "fresh processes of both builds each",
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
Json words() {
  Json unused;
  return schema_of<Enum>(range::any, unused)["enum"];
}

// The fields of a specification, then the results of a case.
Json case_definition(const char* results, const std::vector<std::string>& required, Json& definitions) {
  Json schema = schema_of_fields<CaseSpec>(definitions);
  schema["properties"].update(Json::parse(results));
  for (const std::string& key : required) schema["required"].push_back(key);
  return schema;
}

Json skeleton_of(const char* skeleton) {
  Json schema = Json::parse(skeleton), &definitions = schema["$defs"];
  schema["properties"]["status"]["enum"] = words<RunStatus>();
  definitions = Json::parse(shared_definitions);
  schema_of<EnvBlock>(range::any, definitions);
  definitions["env"]["properties"]["fingerprint"]["pattern"] = "^[0-9a-f]{8}$";
  return schema;
}

}  // namespace

Json run_schema() {
  Json schema = skeleton_of(run_skeleton), &definitions = schema["$defs"];
  definitions["case"] = case_definition(
      case_results, {"status", "reason", "checks", "stats", "phases", "derived", "warnings", "launches"}, definitions);
  definitions["case"]["properties"]["status"]["enum"] = words<CaseStatus>();
  definitions["case"]["allOf"] = Json::parse(case_rule);
  schema_of<CheckRow>(range::any, definitions);
  schema_of<Summary>(range::any, definitions);
  schema_of<Derived>(range::any, definitions);
  schema_of<LaunchRecord>(range::any, definitions);
  schema_of<TrainingRecord>(range::any, definitions);
  return schema;
}

Json duel_schema() {
  Json schema = skeleton_of(duel_skeleton), &definitions = schema["$defs"];
  definitions["case"] =
      case_definition(duel_results, {"status", "verdict", "look", "steps_per_block", "launches"}, definitions);
  definitions["case"]["properties"]["status"]["enum"] = words<DuelStatus>();
  Json& verdict = definitions["case"]["properties"]["verdict"]["enum"] = words<Verdict>();
  verdict.push_back(nullptr);
  schema_of<DuelPair>(range::any, definitions);
  schema_of<CheckRow>(range::any, definitions);
  schema_of<DuelBuild>(range::any, definitions);
  return schema;
}

namespace {

class Checker {
 public:
  explicit Checker(const Json& schema) : definitions_(schema.at("$defs")) {}

  void visit(const Json& value, const Json& schema, const std::string& path) {
    if (const auto reference = schema.find("$ref"); reference != schema.end())
      return visit(value, definitions_.at(reference->get<std::string>().substr(8)), path);  // "#/$defs/"
    if (const auto either = schema.find("oneOf"); either != schema.end())
      return value.is_null() ? void() : visit(value, either->at(1), path);
    if (const auto type = schema.find("type"); type != schema.end() && !has_type(value, *type))
      return say(path, value, "not " + type_text(*type));
    if (const auto constant = schema.find("const"); constant != schema.end() && value != *constant)
      return say(path, value, "not " + constant->dump());
    if (const auto names = schema.find("enum");
        names != schema.end() && std::find(names->begin(), names->end(), value) == names->end())
      return say(path, value, "not one of " + names->dump());
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

  void say(const std::string& path, const Json& value, const std::string& what) {
    found.push_back(path + " is " + (value.is_structured() ? value.type_name() : value.dump()) + ", " + what);
  }
  void number(const Json& value, const Json& schema, const std::string& path) {
    const auto x = value.get<double>();
    const auto bound = [&](const char* key, auto holds, const char* words) {
      const auto limit = schema.find(key);
      if (limit != schema.end() && !holds(limit->get<double>())) say(path, value, words + limit->dump());
    };
    bound("minimum", [&](double least) { return x >= least; }, "not at least ");
    bound("exclusiveMinimum", [&](double least) { return x > least; }, "not above ");
    bound("maximum", [&](double most) { return x <= most; }, "not at most ");
  }
  void text(const Json& value, const Json& schema, const std::string& path) {
    const auto words = value.get<std::string>();
    if (words.empty() && schema.contains("minLength")) say(path, value, "not a name");
    if (schema.contains("pattern") && !std::regex_match(words, std::regex(schema.at("pattern").get<std::string>())))
      say(path, value, "not of the form " + schema.at("pattern").get<std::string>());
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

}  // namespace

namespace {

// Where another section tells more.
std::string meaning_of(const Json& property) {
  const Json& type = property.contains("items") ? property.at("items") : property;
  return type.contains("$ref") ? "see " + type.at("$ref").get<std::string>().substr(8) : "";
}

}  // namespace

std::string glossary() {
  const Json schema = run_schema();
  std::string text =
      "# Every key of run.json\n\nMade by `dpbench schema glossary` from the tables that run.json is written from. "
      "`-`: a "
      "name, a text or a list of them.\n";
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
