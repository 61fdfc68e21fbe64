// Generates the JSON Schemas of reports, and the glossary of their keys, from the field tables. Validates documents
// against a schema.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/codec.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

Json run_schema();
Json duel_schema();
Json compare_schema();

// Returns the JSON Schema of a document from its name, its title and the schema of its fields.
Json document_schema(const std::string& name, const std::string& title, const Json& fields, const Json& definitions);
// Returns the JSON Schema of a document from the field table of its struct T.
template <class T>
Json document_schema() {
  Json definitions = Json::object();
  const Json fields = schema_of_fields<T>(definitions);
  return document_schema(Table<T>::name, Table<T>::title, fields, definitions);
}

// Returns the glossary: Markdown tables of every key of run.json with its unit and meaning.
std::string glossary();

// Returns a document's violations of a JSON Schema, e.g. "report.env.cpu.usable is \"two\", not integer"; empty if the
// document is valid.
std::vector<std::string> schema_problems(const Json& document, const Json& schema);

}  // namespace dpbench
