// The columns of a report's table and CSV, and their choice and order by --columns and --sort.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct Column {
  const char* name;                                       // the column's name in the CSV header and on the command line
  const char* alias;                                      // the column's shorter name on the command line; empty: none
  const char* title;                                      // the column's title in the table's header
  bool right;                                             // true: the table aligns the column to the right
  std::string (*cell)(const Report&, const CaseRecord&);  // cell text in the table and in Markdown
  std::string (*exact)(const Report&, const CaseRecord&);  // value in the CSV and for sorting; empty: unknown
};

// Throws a UsageError that names an unknown column of --columns or --sort.
void check_view(const TableView& view);
// These functions return the columns that the flag --columns names, or the default columns without that flag.
std::vector<const Column*> table_columns(const TableView& view);
std::vector<const Column*> csv_columns(const TableView& view);
// Returns the cases sorted by the column of the flag --sort, cases without a value last. Without that flag, keeps the
// order of the report.
std::vector<const CaseRecord*> ordered_cases(const Report& report, const TableView& view);

}  // namespace dpbench
