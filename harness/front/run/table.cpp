#include "harness/front/run/table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <optional>

#include "harness/front/run/columns.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/answer/answer_output.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/figures/summarise.h"

namespace dpbench {
namespace {

struct Section {
  std::string heading;
  std::vector<Cells> rows;
};

// Suffix of a section's heading if the steps of its cases compute something other than the baseline's steps.
constexpr const char* other_mathematics = " · other mathematics than the baseline's: speeds do not compare";

// Groups the report's cases into table sections by heading. Sections are in the order of their first cases.
std::vector<Section> sections_of(const Report& report, const TableView& view) {
  const std::string reference = reference_name(report);
  const auto columns = table_columns(view);
  std::vector<Section> sections;
  for (const CaseRecord* one : ordered_cases(report, view)) {
    const CaseRecord& record = *one;
    const std::string setting = setting_text(record.spec, !view.batch_column);
    const std::string title = setting + (reference.empty() ? "" : " · speed-ups over " + reference) +
                              (record.other_mathematics() ? other_mathematics : "");
    auto found = std::find_if(sections.begin(), sections.end(),
                              [&](const Section& section) { return section.heading == title; });
    if (found == sections.end()) found = sections.insert(sections.end(), Section{title, {}});
    Cells& cells = found->rows.emplace_back();
    for (const Column& column : columns) cells.push_back(column.cell(report, record));
  }
  return sections;
}

const char* colour_of(const std::string& check) {
  const auto status = parse_name<CaseStatus>(check);
  if (status == CaseStatus::ok) return "\x1B[32m";
  return status == CaseStatus::failed || status == CaseStatus::wrong ? "\x1B[31m" : "";
}

// Colours the status `check`, such as "ok", where it first fills a whole cell of the row.
void colour_cell(std::string& row, const std::string& check) {
  if (check.empty()) return;
  for (size_t at = row.find("  " + check); at != std::string::npos; at = row.find("  " + check, at + 1)) {
    const size_t end = at + 2 + check.size();
    if (end < row.size() && row[end] != ' ' && row[end] != '\n') continue;
    if (*colour_of(check)) row.replace(at + 2, check.size(), colour_of(check) + check + "\x1B[0m");
    return;
  }
}

std::string csv_cell(const std::string& text) {
  const bool formula = !text.empty() && std::string("=+-@").find(text[0]) != std::string::npos && text.size() > 1 &&
                       !std::isdigit(static_cast<unsigned char>(text[1]));
  std::string cell = formula ? "'" + text : text;  // the quote keeps a spreadsheet from executing the cell as a formula
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  for (size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, "\"");
  return "\"" + cell + "\"";
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : one_line(text, 400)) {
    if (c == '<')
      cell += "&lt;";
    else if (std::string("|`*_[]\\").find(c) != std::string::npos)
      cell += std::string("\\") + c;
    else
      cell += c;
  }
  return cell;
}

}  // namespace

std::string aligned(const std::vector<Cells>& rows, const std::vector<bool>& right) {
  std::string text;
  for (const auto& row : folded_rows(rows, right, fold_width())) text += row + "\n";
  return text;
}

std::string as_markdown(const std::vector<Cells>& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    text += "|";
    for (const auto& cell : rows[i]) text += " " + markdown_cell(cell) + " |";
    text += "\n";
    if (i > 0) continue;
    text += "|";
    for (size_t column = 0; column < rows[i].size(); ++column) text += " --- |";
    text += "\n";
  }
  return text;
}

std::string as_csv(const std::vector<Cells>& rows) {
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += (i ? "," : "") + csv_cell(row[i]);
    text += line + "\n";
  }
  return text;
}

std::string json_text(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string rows_text(const std::vector<Cells>& rows, const std::vector<bool>& right, Form form) {
  switch (form) {
    case Form::table:
      return aligned(rows, right);
    case Form::csv:
      return as_csv(rows);
    case Form::markdown:
      return as_markdown(rows);
    default:
      return "";
  }
}

std::string judgement_text(std::vector<Cells> rows, const std::vector<bool>& right, const std::string& summary,
                           Form form) {
  if (form == Form::markdown) return as_markdown(rows) + "\n" + summary + "\n";
  for (auto& row : rows)
    for (auto& cell : row) cell = one_line(cell, 160);
  return aligned(rows, right) + folded(summary + "\n");
}

namespace {

// Returns the tags of a run as "key=value · key=value"; empty if it has none.
std::string tags_text(const Report& report) {
  std::vector<std::string> words;
  const Json tags = report.config.value("tags", Json::object());
  for (const auto& [key, value] : tags.items())
    if (value.is_string()) words.push_back(key + "=" + value.get<std::string>());
  return one_line(join(words, " · "), 200);
}

Cells titles_of(const std::vector<Column>& columns) {
  Cells titles;
  for (const Column& column : columns) titles.push_back(column.title);
  return titles;
}

}  // namespace

std::string report_table(const Report& report, bool colour, const TableView& view) {
  const auto columns = table_columns(view);
  std::vector<bool> right;
  size_t check_column = columns.size();
  for (size_t i = 0; i < columns.size(); ++i) {
    right.push_back(columns[i].right);
    if (columns[i].name == "check") check_column = i;
  }
  std::vector<Cells> all = {titles_of(columns)};
  const auto sections = sections_of(report, view);
  for (const auto& section : sections) all.insert(all.end(), section.rows.begin(), section.rows.end());
  // Lay out the rows of all sections together, so that their columns have the same widths.
  const auto texts = folded_rows(all, right, fold_width());
  const std::string tags = tags_text(report);
  std::string text = tags.empty() ? "" : folded(tags + "\n") + "\n";
  if (!report.disturbance.empty()) text += folded("! " + report.disturbance + "\n") + "\n";
  size_t next = 1;
  for (const auto& section : sections) {
    text += (next > 1 ? "\n" : "") + folded(section.heading + "\n") + texts[0] + "\n";
    for (const auto& row : section.rows) {
      std::string shown = texts[next++];
      if (colour && check_column < row.size()) colour_cell(shown, row[check_column]);
      text += shown + "\n";
    }
  }
  return text;
}

std::string report_markdown(const Report& report, const TableView& view) {
  const std::string& line_above = report.disturbance;
  const std::string tags = tags_text(report);
  std::string text = tags.empty() ? "" : markdown_cell(tags) + "\n";
  if (!line_above.empty()) text += (text.empty() ? "" : "\n") + std::string("> ") + markdown_cell(line_above) + "\n";
  for (const auto& section : sections_of(report, view)) {
    std::vector<Cells> rows = {titles_of(table_columns(view))};
    rows.insert(rows.end(), section.rows.begin(), section.rows.end());
    text +=
        (text.empty() ? "" : "\n") + std::string("**") + markdown_cell(section.heading) + "**\n\n" + as_markdown(rows);
  }
  return text;
}

std::string report_csv(const Report& report, const TableView& view) {
  const auto columns = csv_columns(report, view);
  std::vector<Cells> rows(1);
  for (const Column& column : columns) rows[0].push_back(column.name);
  for (const CaseRecord* record : ordered_cases(report, view)) {
    Cells& cells = rows.emplace_back();
    for (const Column& column : columns) cells.push_back(column.exact(report, *record));
  }
  return as_csv(rows);
}

std::string answer_text(const Answer& answer, Form form) {
  const bool markdown = form == Form::markdown;
  std::string text;
  for (const AnswerSection& section : sections_of(answer)) {
    const std::string title = section.title.empty() ? "The whole run" : section.title;
    text += (text.empty() ? "" : "\n") +
            (markdown ? "**" + markdown_cell(title) + "**\n\n" : folded(one_line(title, 300) + "\n"));
    for (const std::string& sentence : section.sentences)
      text += markdown ? "- " + markdown_cell(sentence) + "\n" : folded("  " + one_line(sentence, 400) + "\n");
  }
  return text;
}

std::string brief_answer(const Answer& answer, size_t most, Form form) {
  if (!compares_any(answer)) return "";
  std::string text;
  for (const std::string& line : brief_lines(answer, most))
    text += form == Form::markdown ? "- " + markdown_cell(line) + "\n" : folded(one_line(line, 400) + "\n");
  return text;
}

std::vector<Cells> plan_rows(const Plan& plan) {
  std::vector<Cells> rows = {{"CASE", "PROCESSES", "THREADS", "GLOBAL BATCH", "NOTES"}};
  const auto add = [&](const CaseSpec& spec, const std::string& note) {
    rows.push_back({spec.id, std::to_string(spec.processes), std::to_string(spec.threads),
                    std::to_string(spec.global_batch()), note});
  };
  for (const auto& spec : plan.cases) {
    const auto note = plan.notes.find(spec.id);
    add(spec, spec.baseline ? "baseline" : note == plan.notes.end() ? "" : note->second);
  }
  for (const auto& skipped : plan.skipped) add(skipped.spec, "skipped: " + skipped.reason);
  return rows;
}

Json plan_json(const Plan& plan) {
  Json cases = Json::array(), skipped = Json::array();
  for (const auto& spec : plan.cases) cases.push_back(to_json(spec));
  for (const auto& [spec, reason] : plan.skipped) skipped.push_back({{"case", to_json(spec)}, {"reason", reason}});
  return {{"threads", plan.threads}, {"cases", cases}, {"notes", plan.notes}, {"skipped", skipped}};
}

std::string plan_text(const Plan& plan, Form form) {
  if (form == Form::jsonl) return plan_json(plan).dump() + "\n";
  return form == Form::json ? plan_json(plan).dump(1) + "\n"
                            : rows_text(plan_rows(plan), {false, true, true, true, false}, form);
}

}  // namespace dpbench
