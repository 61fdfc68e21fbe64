// Folds text that is wider than the output: sentences, and table rows laid out in aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dpbench {

// Returns the text of each row, without a newline at its end. Columns for which `right` is true are right-aligned; all
// others are left-aligned. If the table is wider than `width` (0: no limit), columns that do not fit move to further,
// indented lines of the row, and long text wraps within its column. Right-aligned cells, which hold figures, and single
// words never wrap.
std::vector<std::string> folded_rows(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                                     size_t width);

// Returns the lines of a text, each ended by a newline. Lines wider than fold_width() wrap at spaces; continuation
// lines are indented by two more columns. Single words never wrap.
std::string folded(const std::string& lines);

// Like folded(), for lines of two columns, which are separated by two or more spaces: the second column wraps under
// itself, or on the lines below if little width is left for it. Lines that are one command to copy stay whole.
std::string folded_columns(const std::string& lines);

}  // namespace dpbench
