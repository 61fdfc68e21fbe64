// The columns of a report's table and CSV, and their choice and order by --columns and --sort.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct Column {
  using Text = std::function<std::string(const Report&, const CaseRecord&)>;
  std::string name;   // the column's name in the CSV header and on the command line
  std::string alias;  // the column's shorter name on the command line; empty: none
  std::string title;  // the column's title in the table's header
  bool right;         // true: the table aligns the column to the right
  Text cell;          // cell text in the table and in Markdown
  Text exact;         // value in the CSV and for sorting; empty: unknown
};

// Throws a UsageError that names an unknown column of --columns or --sort. parameters: the names of strategy parameters
// that are allowed in a column param.NAME.
void check_view(const TableView& view, const std::vector<std::string>& parameters);
// These functions return the columns that the flag --columns names, or the default columns without that flag. The CSV
// then ends with a column param.NAME for each strategy parameter that any case of the report has set.
std::vector<Column> table_columns(const TableView& view);
std::vector<Column> csv_columns(const Report& report, const TableView& view);
// Returns the cases sorted by the column of the flag --sort, cases without a value last. Without that flag, keeps the
// order of the report.
std::vector<const CaseRecord*> ordered_cases(const Report& report, const TableView& view);

}  // namespace dpbench
