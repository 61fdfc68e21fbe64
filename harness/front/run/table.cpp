#include "harness/front/run/table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <optional>

#include "harness/front/text/text.h"
#include "harness/report/figures/derived.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/figures/summarise.h"

namespace dpbench {
namespace {

const Cells column_titles = {"STRATEGY", "WORLD", "STEP ms", "±95 %", "SAMPLES/s", "SPEEDUP",
                             "EFFIC",    "COMM",  "NOISE",   "MEANS", "CHECK",     "NOTES"};
const std::vector<bool> right_aligned = {false, true, true, true, true, true, true, true, true, false, false, false};
constexpr size_t check_column = 10, notes_width = 100;

std::string number(const char* form, std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  char text[48];
  std::snprintf(text, sizeof text, form, *value);
  return text;
}

// Formats nanoseconds as milliseconds with four significant digits and no exponent; "-" if the value is missing.
std::string milliseconds(std::optional<double> ns) {
  if (!ns || !(*ns > 0) || !std::isfinite(*ns)) return "-";
  const double ms = *ns * 1e-6;
  const int decimals = std::clamp(3 - static_cast<int>(std::floor(std::log10(ms))), 0, 6);
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", decimals, ms);
  return text;
}

std::optional<double> percent(std::optional<double> fraction) {
  return fraction ? std::optional(*fraction * 100) : std::nullopt;
}

std::string check_cell(const CaseRecord& record) {
  if (!record.ok()) return name_of(record.status);
  if (record.checks.empty()) return "-";
  return "ok";
}

// Returns the notes column of a case: the settings that distinguish it from other cases of its strategy, the reason of
// its status, then its warnings and notices.
std::string notes(const Report& report, const CaseRecord& record) {
  const CaseSpec& spec = record.spec;
  std::vector<std::string> all;
  if (loaded(report, record)) all.emplace_back("! busy");
  if (spec.baseline) all.emplace_back("baseline");
  if (!spec.mesh.empty()) all.push_back(spec.mesh);
  if (spec.backend != no_backend) all.push_back(spec.backend);
  for (const auto& [name, value] : spec.params) all.push_back(name + "=" + value);
  if (spec.oversubscribe) all.push_back("GPUs shared");
  if (spec.processes > 1 && spec.global_batch() % spec.replicas() != 0) all.push_back("first ranks: one sample more");
  if (!record.reason.empty()) all.push_back(first_line(record.reason));
  for (const auto* messages : {&record.warnings, &record.notices})
    for (const auto& text : *messages) all.push_back("! " + first_line(text));
  return join(all, " · ");
}

// Formats a value with half the width of its confidence interval, for example "1.62±0.04x"; "-" without a value.
std::string with_interval(int decimals, const char* unit, std::optional<double> value, std::optional<double> low,
                          std::optional<double> high) {
  if (!value || !std::isfinite(*value)) return "-";
  char text[64], half[32] = "";
  if (low && high && *high - *low > *value)  // too wide and uneven for one half width
    std::snprintf(half, sizeof half, " (%.*f-%.*f)", decimals, *low, decimals, *high);
  else if (low && high)
    std::snprintf(half, sizeof half, "±%.*f", decimals, (*high - *low) / 2);
  std::snprintf(text, sizeof text, "%.*f%s%s", decimals, *value, half, unit);
  return text;
}

// Returns the efficiency cell. Worlds above the cores have no ideal to be measured by, so they have no efficiency.
std::string efficiency_cell(const Report& report, const CaseRecord& record) {
  const Derived& d = record.derived;
  if (crowded(record.spec, cores_of(report))) return "-";
  return with_interval(0, above_ideal(record) ? " % !" : " %", percent(d.efficiency), percent(d.efficiency_low),
                       percent(d.efficiency_high));
}

Cells row_cells(const Report& report, const CaseRecord& record) {
  const Derived& d = record.derived;
  const auto& summary = record.step_time_ns;
  const bool has_interval = summary && summary->ci95_low && summary->ci95_high;
  return {
      record.spec.strategy,
      std::to_string(record.spec.world),
      milliseconds(summary ? std::optional(summary->median) : std::nullopt),
      has_interval ? number("%.1f %%", percent((*summary->ci95_high - *summary->ci95_low) / 2 / summary->median)) : "-",
      number("%.0f", d.samples_per_s) + (d.tokens_per_s ? number(" (%.0f tokens)", d.tokens_per_s) : ""),
      with_interval(2, "x", d.speedup, d.speedup_low, d.speedup_high),
      efficiency_cell(report, record),
      number("%.0f %%", percent(record.derived.comm_fraction)),
      number("%.1f %%", percent(record.derived.noise)),
      record.means.empty() ? "-" : record.means,
      check_cell(record),
      one_line(notes(report, record), notes_width)};
}

std::string heading(const CaseSpec& spec) {
  std::string text = spec.workload + " · " + (spec.device == Device::cuda ? "GPU" : "CPU") + " · ";
  text += spec.scaling == Scaling::strong ? "strong scaling, global batch " + std::to_string(spec.batch)
                                          : "weak scaling, " + std::to_string(spec.batch) + " samples per device";
  text += " · " + spec.dtype + " · " + spec.runtime + " runtime · " + std::to_string(spec.threads) +
          (spec.threads == 1 ? " thread" : " threads") + " per replica";
  if (!spec.model.empty()) text += " · " + spec.model;
  if (spec.scale != 1) text += " · scale " + std::to_string(spec.scale);
  if (spec.accumulate != 1) text += " · " + std::to_string(spec.accumulate) + " micro-batches";
  if (spec.recompute != 0) text += " · recomputes every " + std::to_string(spec.recompute) + " blocks";
  return text;
}

struct Section {
  std::string heading;
  std::vector<Cells> rows;
};

// Added to the heading of cases whose steps do not compute what the baseline's do.
constexpr const char* other_mathematics = " · other mathematics than the baseline's: speeds do not compare";

// Groups the report's cases into table sections by heading. Sections are in the order of their first cases.
std::vector<Section> sections_of(const Report& report) {
  const std::string reference = reference_name(report);
  std::vector<Section> sections;
  for (const auto& record : report.cases) {
    const std::string title = heading(record.spec) + (reference.empty() ? "" : " · speed-ups over " + reference) +
                              (record.other_mathematics() ? other_mathematics : "");
    auto found = std::find_if(sections.begin(), sections.end(),
                              [&](const Section& section) { return section.heading == title; });
    if (found == sections.end()) found = sections.insert(sections.end(), Section{title, {}});
    found->rows.push_back(row_cells(report, record));
  }
  return sections;
}

const char* colour_of(const std::string& check) {
  const auto status = parse_name<CaseStatus>(check);
  if (status == CaseStatus::ok) return "\x1B[32m";
  return status == CaseStatus::failed || status == CaseStatus::wrong ? "\x1B[31m" : "";
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

std::string exact(std::optional<double> value) { return value ? number("%.9g", value) : ""; }

}  // namespace

std::string aligned(const std::vector<Cells>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - display_width(row[i]), ' ');
      line += (i ? "  " : "") + (right[i] ? gap + row[i] : row[i] + gap);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
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
  return aligned(rows, right) + summary + "\n";
}

std::string report_table(const Report& report, bool colour) {
  std::vector<Cells> all = {column_titles};
  const auto sections = sections_of(report);
  for (const auto& section : sections) all.insert(all.end(), section.rows.begin(), section.rows.end());
  // Use the same column widths in all sections of the table.
  const auto lines = split(aligned(all, right_aligned), '\n');
  const std::string& line_above = report.disturbance;
  std::string text = line_above.empty() ? "" : "! " + line_above + "\n\n";
  size_t next = 1;
  for (const auto& section : sections) {
    text += (next > 1 ? "\n" : "") + section.heading + "\n" + lines[0] + "\n";
    for (const auto& row : section.rows) {
      std::string line = lines[next++];
      const std::string& check = row[check_column];
      const size_t at = colour ? line.find("  " + check + "  ") : std::string::npos;
      if (at != std::string::npos && *colour_of(check))
        line.replace(at + 2, check.size(), colour_of(check) + check + "\x1B[0m");
      text += line + "\n";
    }
  }
  return text;
}

std::string report_markdown(const Report& report) {
  const std::string& line_above = report.disturbance;
  std::string text = line_above.empty() ? "" : "> " + markdown_cell(line_above) + "\n";
  for (const auto& section : sections_of(report)) {
    std::vector<Cells> rows = {column_titles};
    rows.insert(rows.end(), section.rows.begin(), section.rows.end());
    text +=
        (text.empty() ? "" : "\n") + std::string("**") + markdown_cell(section.heading) + "**\n\n" + as_markdown(rows);
  }
  return text;
}

std::string report_csv(const Report& report) {
  std::vector<Cells> rows = {{"case",
                              "strategy",
                              "workload",
                              "device",
                              "world",
                              "backend",
                              "scaling",
                              "batch",
                              "dtype",
                              "status",
                              "step_time_ns",
                              "ci95_low_ns",
                              "ci95_high_ns",
                              "samples_per_s",
                              "speedup",
                              "efficiency",
                              "comm_fraction",
                              "noise",
                              "launches",
                              "reason",
                              "speedup_low",
                              "speedup_high",
                              "means",
                              "disturbed_blocks",
                              "other_programs_cores",
                              "host_cores"}};
  for (const auto& record : report.cases) {
    const CaseSpec& spec = record.spec;
    const auto& summary = record.step_time_ns;
    const auto end = [&](std::optional<double> Summary::* field) {
      return summary ? exact(((*summary).*field).value_or(summary->median)) : "";
    };
    rows.push_back({spec.id,
                    spec.strategy,
                    spec.workload,
                    name_of(spec.device),
                    std::to_string(spec.world),
                    spec.backend,
                    name_of(spec.scaling),
                    std::to_string(spec.batch),
                    name_of(spec.dtype),
                    name_of(record.status),
                    summary ? exact(summary->median) : "",
                    end(&Summary::ci95_low),
                    end(&Summary::ci95_high),
                    exact(record.derived.samples_per_s),
                    exact(record.derived.speedup),
                    exact(record.derived.efficiency),
                    exact(record.derived.comm_fraction),
                    exact(record.derived.noise),
                    std::to_string(record.launches.size()),
                    one_line(record.reason, 300),
                    exact(record.derived.speedup_low),
                    exact(record.derived.speedup_high),
                    record.means,
                    std::to_string(disturbed_blocks(record)),
                    exact(most_load(record, &OtherLoad::programs)),
                    exact(most_load(record, &OtherLoad::host))});
  }
  return as_csv(rows);
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
  return form == Form::json ? plan_json(plan).dump(1) + "\n"
                            : rows_text(plan_rows(plan), {false, true, true, true, false}, form);
}

}  // namespace dpbench
