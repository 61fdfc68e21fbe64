// The columns of a report's table and CSV, and their choice and order by --columns and --sort.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct Column {
  const char* name;                                        // in the CSV's header, and on the command line
  const char* alias;                                       // shorter name on the command line; empty: none
  const char* title;                                       // in the table's head
  bool right;                                              // the table aligns it to the right
  std::string (*cell)(const Report&, const CaseRecord&);   // in the table and in Markdown
  std::string (*exact)(const Report&, const CaseRecord&);  // in the CSV, and to sort by; empty: unknown
};

// Throws a UsageError that names an unknown column of --columns or --sort.
void check_view(const TableView& view);
// Return the columns of a view, or the usual ones if it chooses none.
std::vector<const Column*> table_columns(const TableView& view);
std::vector<const Column*> csv_columns(const TableView& view);
// Returns the cases in the order of the view: that of the report, or sorted by a column, cases without a figure last.
std::vector<const CaseRecord*> ordered_cases(const Report& report, const TableView& view);

}  // namespace dpbench
