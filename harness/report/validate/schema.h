// Generates the JSON Schemas of reports, and the glossary of their keys, from the field tables. Validates documents
// against a schema.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

Json run_schema();
Json duel_schema();
// Returns the glossary: Markdown tables of every key of run.json with its unit and meaning.
std::string glossary();

// Returns a document's violations of a JSON Schema, e.g. "report.env.cpu.usable is \"two\", not integer"; empty if the
// document is valid.
std::vector<std::string> schema_problems(const Json& document, const Json& schema);

}  // namespace dpbench
