// The rows of a report for people: a table, Markdown, or CSV. What is missing is "-", never a made-up figure.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/plan/plan.h"
#include "harness/report/record/report.h"

namespace dpbench {

using Cells = std::vector<std::string>;

// Columns aligned: those in `right` to the right. The last one is never padded.
std::string aligned(const std::vector<Cells>& rows, const std::vector<bool>& right);
std::string as_markdown(const std::vector<Cells>& rows);
std::string as_csv(const std::vector<Cells>& rows);

std::string report_table(const Report& report, bool colour);
std::string report_markdown(const Report& report);
std::string report_csv(const Report& report);

// A whole document, indented by one.
std::string json_text(const Json& json);
// Rows as CSV, Markdown or a table. (Of the other forms of output: nothing.)
std::string rows_text(const std::vector<Cells>& rows, const std::vector<bool>& right, Form form);

// Rows as Markdown or a table, and a line below them.
std::string judgement_text(std::vector<Cells> rows, const std::vector<bool>& right, const std::string& summary,
                           Form form);

std::vector<Cells> plan_rows(const Plan& plan);
Json plan_json(const Plan& plan);
std::string plan_text(const Plan& plan, Form form);

}  // namespace dpbench
