// The JSON Schemas of the reports and the glossary of their keys, made of the tables of fields; and the check of a
// document against a schema.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

Json run_schema();
Json duel_schema();
// Every key of run.json with its unit and meaning, as Markdown.
std::string glossary();

// Each place in which a document does not fit the schema: "env.cpu.usable is \"two\", not an integer".
std::vector<std::string> schema_problems(const Json& document, const Json& schema);

}  // namespace dpbench
