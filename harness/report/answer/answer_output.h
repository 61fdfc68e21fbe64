// Formats an answer as lines below a table, as text or as Markdown.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/answer.h"

namespace dpbench {

// Returns the most important sentences of an answer, at most `most` lines: those of the largest worlds first, then of
// the run. Leaves out groups in which nothing is compared.
std::vector<std::string> brief_lines(const Answer& answer, size_t most);

// Returns true if the answer compares the speeds of any two cases.
bool compares_any(const Answer& answer);

struct AnswerSection {
  std::string title;  // empty: the whole run
  std::vector<std::string> sentences;
};
// Returns all sentences: of the run, then of each group.
std::vector<AnswerSection> sections_of(const Answer& answer);

}  // namespace dpbench
