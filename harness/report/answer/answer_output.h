// Formats a run's answer (which strategy is fastest, and why) as lines for printing below a table of results.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/answer.h"

namespace dpbench {

// Returns the first sentences of an answer, at most `most` lines: first of the groups with the largest worlds, then of
// the whole run. Leaves out groups that compare no cases, and the load by other programs, which the table states above
// its rows.
std::vector<std::string> brief_lines(const Answer& answer, size_t most);

// Returns true if the answer compares the speeds of at least two cases, or gives the verdict of a run of `tune`.
bool compares_any(const Answer& answer);

struct AnswerSection {
  std::string title;  // names the group of cases; empty: the section is about the whole run
  std::vector<std::string> sentences;
};
// Returns all sentences of an answer: a section for each group, then one for the whole run.
std::vector<AnswerSection> sections_of(const Answer& answer);

}  // namespace dpbench
