// Formats a report or a plan as a table, Markdown or CSV. A missing value is "-", but empty in the CSV of a report.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/plan/plan.h"
#include "harness/report/record/report.h"

namespace dpbench {

using Cells = std::vector<std::string>;

// Formats rows as text with aligned columns, folded to the width of the terminal or COLUMNS. right: true for each
// column that is aligned right; the last column is never padded.
std::string aligned(const std::vector<Cells>& rows, const std::vector<bool>& right);
std::string as_markdown(const std::vector<Cells>& rows);
std::string as_csv(const std::vector<Cells>& rows);

std::string report_table(const Report& report, bool colour, const TableView& view = {});
std::string report_markdown(const Report& report, const TableView& view = {});
// Formats a report as CSV.
std::string report_csv(const Report& report, const TableView& view = {});

// Formats all sentences of a run's answer (which strategy is fastest, and why) under the headings of its sections, as
// text or Markdown.
std::string answer_text(const Answer& answer, Form form);
// Formats the answer's most important sentences in at most `most` lines, to print below a table. Empty if the answer
// compares nothing.
std::string brief_answer(const Answer& answer, size_t most, Form form);

// Formats a complete JSON document, indented by one space.
std::string json_text(const Json& json);
// Formats rows in the output form `form`: CSV, Markdown or a table. right: true for each column that a table aligns
// right. Returns an empty string for any other form.
std::string rows_text(const std::vector<Cells>& rows, const std::vector<bool>& right, Form form);

// Formats the rows of a comparison as Markdown or a table, followed by a summary line.
std::string judgement_text(std::vector<Cells> rows, const std::vector<bool>& right, const std::string& summary,
                           Form form);

std::vector<Cells> plan_rows(const Plan& plan);
Json plan_json(const Plan& plan);
std::string plan_text(const Plan& plan, Form form);

}  // namespace dpbench
