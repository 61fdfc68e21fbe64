// The rows of a report for people: a table, Markdown, or CSV. What is missing is "-", never a made-up figure.
#pragma once

#include <string>
#include <vector>

#include "harness/front/plan.h"
#include "harness/report/report.h"

namespace dpbench {

using Cells = std::vector<std::string>;

// Columns aligned: those in `right` to the right. The last one is never padded.
std::string aligned(const std::vector<Cells>& rows, const std::vector<bool>& right);
std::string as_markdown(const std::vector<Cells>& rows);
std::string as_csv(const std::vector<Cells>& rows);

std::string report_table(const Report& report, bool colour);
std::string report_markdown(const Report& report);
std::string report_csv(const Report& report);

std::vector<Cells> plan_rows(const Plan& plan);
Json plan_json(const Plan& plan);

}  // namespace dpbench
