#include "harness/front/run/columns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>

#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/derived.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/machine/tool.h"
#include "harness/report/record/find_run.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t notes_width = 100;  // maximum width of the notes column on a terminal
constexpr const char* descending = ":desc";

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

// Returns the notes column of a case: "! busy" if other programs used the cores, the case's settings (such as mesh,
// backend, and parameters that differ from their defaults), the reason of its status, then its warnings and notices.
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
  // If the interval is wider than the value, show its ends instead of half its width.
  if (low && high && *high - *low > *value)
    std::snprintf(half, sizeof half, " (%.*f-%.*f)", decimals, *low, decimals, *high);
  else if (low && high)
    std::snprintf(half, sizeof half, "±%.*f", decimals, (*high - *low) / 2);
  std::snprintf(text, sizeof text, "%.*f%s%s", decimals, *value, half, unit);
  return text;
}

using Share = std::optional<double> Derived::*;

// Returns the efficiency or an end of its interval; nullopt if the replicas have more threads than there are cores,
// because ideal scaling is then undefined.
std::optional<double> scaling_share(const Report& report, const CaseRecord& record, Share share) {
  return crowded(record.spec, cores_of(report)) ? std::nullopt : record.derived.*share;
}

std::string efficiency_cell(const Report& report, const CaseRecord& record) {
  const auto value = [&](Share share) { return percent(scaling_share(report, record, share)); };
  return with_interval(0, above_ideal(record) ? " % !" : " %", value(&Derived::efficiency),
                       value(&Derived::efficiency_low), value(&Derived::efficiency_high));
}

std::string exact(std::optional<double> value) { return value ? number("%.9g", value) : ""; }

template <Share share>
std::string exact_share(const Report& report, const CaseRecord& record) {
  return exact(scaling_share(report, record, share));
}

std::optional<double> half_width(const CaseRecord& r) {
  const auto& s = r.step_time_ns;
  if (!s || !s->ci95_low || !s->ci95_high) return std::nullopt;
  return (*s->ci95_high - *s->ci95_low) / 2 / s->median;
}

std::string step_end(const CaseRecord& r, std::optional<double> Summary::* field) {
  return r.step_time_ns ? exact(((*r.step_time_ns).*field).value_or(r.step_time_ns->median)) : "";
}

std::optional<double> step_ns(const CaseRecord& r) {
  return r.step_time_ns ? std::optional(r.step_time_ns->median) : std::nullopt;
}

std::optional<double> p99_ns(const CaseRecord& r) {
  return r.step_time_ns ? std::optional(r.step_time_ns->p99) : std::nullopt;
}

std::optional<double> peak_memory(const CaseRecord& r) {
  return r.derived.peak_memory_bytes ? std::optional(static_cast<double>(*r.derived.peak_memory_bytes)) : std::nullopt;
}

// Returns the model's number of parameters or bytes, whichever member `size` points to; empty if it is unknown.
std::string model_size(const CaseRecord& r, int64_t RankRecord::* size) {
  if (r.launches.empty() || r.launches.back().ranks.empty()) return "";
  const int64_t value = r.launches.back().ranks.front().*size;
  return value > 0 ? std::to_string(value) : "";
}

// Returns the bytes of a part of the memory, or its total. part: pointer to a member of MemoryParts.
template <auto part>
std::optional<double> memory_part(const CaseRecord& r) {
  const auto parts = largest_memory(r);
  return parts ? std::optional(static_cast<double>(std::invoke(part, *parts))) : std::nullopt;
}

// Returns the bytes that the closed formula gives for one part of the memory, or for all parts. part: pointer to a
// member of MemoryFormula.
template <auto part>
std::optional<double> formula_part(const CaseRecord& r) {
  return r.memory_formula ? std::optional(static_cast<double>(std::invoke(part, *r.memory_formula))) : std::nullopt;
}

// Formats a measured value, followed by its ratio to the value that a closed formula gives, if that is known and not 0:
// "3.2 (1.00)".
std::string beside_formula(const char* form, std::optional<double> value, std::optional<double> formula, double unit) {
  const std::string text = number(form, value ? std::optional(*value / unit) : std::nullopt);
  return value && formula.value_or(0) > 0 ? text + number(" (%.2f)", *value / *formula) : text;
}

using Text = std::string (*)(const Report&, const CaseRecord&);

// Returns a column whose cells are the same in the table and in the CSV.
Column same(const char* name, const char* title, Text text, bool right = false) {
  return {name, "", title, right, text, text};
}

std::optional<double> collective_bytes(const CaseRecord& r) { return r.derived.collective_bytes_per_step; }
std::optional<double> formula_collective_bytes(const CaseRecord& r) {
  return r.derived.formula_collective_bytes_per_step;
}

using Figure = std::optional<double> (*)(const CaseRecord&);

std::optional<double> no_formula(const CaseRecord&) { return std::nullopt; }

// Returns a column of bytes: MiB and the ratio to a formula in the table, bytes in the CSV.
template <Figure measured, Figure formula = no_formula>
Column bytes_column(const char* name, const char* alias, const char* title) {
  return {name,
          alias,
          title,
          true,
          [](const Report&, const CaseRecord& r) { return beside_formula("%.1f", measured(r), formula(r), 1 << 20); },
          [](const Report&, const CaseRecord& r) { return exact(measured(r)); }};
}

const std::vector<Column>& all_columns() {
  using Rp = const Report&;
  using Rc = const CaseRecord&;
  static const std::vector<Column> all = {
      same("case", "CASE", [](Rp, Rc r) { return r.spec.id; }),
      same("strategy", "STRATEGY", [](Rp, Rc r) { return r.spec.strategy; }),
      same("workload", "WORKLOAD", [](Rp, Rc r) { return r.spec.workload; }),
      same("device", "DEVICE", [](Rp, Rc r) { return name_of(r.spec.device); }),
      same(
          "world", "WORLD", [](Rp, Rc r) { return std::to_string(r.spec.world); }, true),
      same("backend", "BACKEND", [](Rp, Rc r) { return r.spec.backend; }),
      same("scaling", "SCALING", [](Rp, Rc r) { return name_of(r.spec.scaling); }),
      same(
          "batch", "BATCH", [](Rp, Rc r) { return std::to_string(r.spec.batch); }, true),
      same("dtype", "DTYPE", [](Rp, Rc r) { return name_of(r.spec.dtype); }),
      same("status", "STATUS", [](Rp, Rc r) { return name_of(r.status); }),
      {"step_time_ns", "step", "STEP ms", true, [](Rp, Rc r) { return milliseconds(step_ns(r)); },
       [](Rp, Rc r) { return exact(step_ns(r)); }},
      {"interval", "", "±95 %", true, [](Rp, Rc r) { return number("%.1f %%", percent(half_width(r))); },
       [](Rp, Rc r) { return exact(half_width(r)); }},
      same(
          "ci95_low_ns", "CI95 LOW ns", [](Rp, Rc r) { return step_end(r, &Summary::ci95_low); }, true),
      same(
          "ci95_high_ns", "CI95 HIGH ns", [](Rp, Rc r) { return step_end(r, &Summary::ci95_high); }, true),
      {"samples_per_s", "samples", "SAMPLES/s", true,
       [](Rp, Rc r) {
         const Derived& d = r.derived;
         return number("%.0f", d.samples_per_s) + (d.tokens_per_s ? number(" (%.0f tokens)", d.tokens_per_s) : "");
       },
       [](Rp, Rc r) { return exact(r.derived.samples_per_s); }},
      {"speedup", "", "SPEEDUP", true,
       [](Rp, Rc r) { return with_interval(2, "x", r.derived.speedup, r.derived.speedup_low, r.derived.speedup_high); },
       [](Rp, Rc r) { return exact(r.derived.speedup); }},
      {"efficiency", "effic", "EFFIC", true, efficiency_cell, exact_share<&Derived::efficiency>},
      {"comm_fraction", "comm", "COMM", true,
       [](Rp, Rc r) { return number("%.0f %%", percent(r.derived.comm_fraction)); },
       [](Rp, Rc r) { return exact(r.derived.comm_fraction); }},
      {"noise", "", "NOISE", true, [](Rp, Rc r) { return number("%.1f %%", percent(r.derived.noise)); },
       [](Rp, Rc r) { return exact(r.derived.noise); }},
      same(
          "launches", "LAUNCHES", [](Rp, Rc r) { return std::to_string(r.launches.size()); }, true),
      same("reason", "REASON", [](Rp, Rc r) { return one_line(r.reason, 300); }),
      same(
          "speedup_low", "SPEEDUP LOW", [](Rp, Rc r) { return exact(r.derived.speedup_low); }, true),
      same(
          "speedup_high", "SPEEDUP HIGH", [](Rp, Rc r) { return exact(r.derived.speedup_high); }, true),
      {"means", "", "MEANS", false, [](Rp, Rc r) { return r.means.empty() ? "-" : r.means; },
       [](Rp, Rc r) { return r.means; }},
      same(
          "disturbed_blocks", "DISTURBED", [](Rp, Rc r) { return std::to_string(disturbed_blocks(r)); }, true),
      same(
          "other_programs_cores", "OTHERS", [](Rp, Rc r) { return exact(most_load(r, &OtherLoad::programs)); }, true),
      same(
          "host_cores", "HOST", [](Rp, Rc r) { return exact(most_load(r, &OtherLoad::host)); }, true),
      {"peak_memory_bytes", "memory", "MEMORY MiB", true,
       [](Rp, Rc r) {
         const auto bytes = peak_memory(r);
         return number("%.0f", bytes ? std::optional(*bytes / (1 << 20)) : std::nullopt);
       },
       [](Rp, Rc r) { return exact(peak_memory(r)); }},
      bytes_column<memory_part<&MemoryParts::parameters>, formula_part<&MemoryFormula::parameters>>(
          "parameter_bytes", "parameters", "PARAMETERS MiB"),
      bytes_column<memory_part<&MemoryParts::gradients>, formula_part<&MemoryFormula::gradients>>(
          "gradient_bytes", "gradients", "GRADIENTS MiB"),
      bytes_column<memory_part<&MemoryParts::state>, formula_part<&MemoryFormula::state>>("state_bytes", "state",
                                                                                          "STATE MiB"),
      bytes_column<memory_part<&MemoryParts::activations>>("activation_bytes", "activations", "ACTIVATIONS MiB"),
      bytes_column<memory_part<&MemoryParts::buffers>, formula_part<&MemoryFormula::buffers>>("buffer_bytes", "buffers",
                                                                                              "BUFFERS MiB"),
      bytes_column<memory_part<&MemoryParts::temporary>>("temporary_bytes", "temporary", "TEMPORARY MiB"),
      same(
          "threads", "THREADS", [](Rp, Rc r) { return std::to_string(r.spec.threads); }, true),
      same("runtime", "RUNTIME", [](Rp, Rc r) { return name_of(r.spec.runtime); }),
      {"p99_ns", "p99", "P99 ms", true, [](Rp, Rc r) { return milliseconds(p99_ns(r)); },
       [](Rp, Rc r) { return exact(p99_ns(r)); }},
      same("warnings", "WARNINGS", [](Rp, Rc r) { return one_line(join(r.warnings, " · "), 1000); }),
      same("commit", "COMMIT", [](Rp report, Rc) { return one_line(run_commit(report.tool), 60); }),
      same("start_time", "START", [](Rp report, Rc) { return start_time(report.id); }),
      same(
          "model_parameters", "MODEL PARAMETERS", [](Rp, Rc r) { return model_size(r, &RankRecord::model_parameters); },
          true),
      same(
          "model_bytes", "MODEL bytes", [](Rp, Rc r) { return model_size(r, &RankRecord::model_bytes); }, true),
      same("efficiency_low", "EFFIC LOW", exact_share<&Derived::efficiency_low>, true),
      same("efficiency_high", "EFFIC HIGH", exact_share<&Derived::efficiency_high>, true),
      bytes_column<memory_part<&MemoryParts::total>, formula_part<&MemoryFormula::total>>("tensor_bytes", "tensors",
                                                                                          "TENSORS MiB"),
      bytes_column<formula_part<&MemoryFormula::total>>("formula_tensor_bytes", "formula", "FORMULA MiB"),
      {"flop_per_step", "flop", "GFLOP", true,
       [](Rp, Rc r) {
         const Derived& d = r.derived;
         return beside_formula("%.4g", d.flop_per_step, d.formula_flop_per_step, 1e9);
       },
       [](Rp, Rc r) { return exact(r.derived.flop_per_step); }},
      {"formula_flop_per_step", "formula-flop", "FORMULA GFLOP", true,
       [](Rp, Rc r) { return beside_formula("%.4g", r.derived.formula_flop_per_step, std::nullopt, 1e9); },
       [](Rp, Rc r) { return exact(r.derived.formula_flop_per_step); }},
      {"collectives_per_step", "calls", "CALLS", true,
       [](Rp, Rc r) {
         const Derived& d = r.derived;
         return beside_formula("%.4g", d.collectives_per_step, d.formula_collectives_per_step, 1);
       },
       [](Rp, Rc r) { return exact(r.derived.collectives_per_step); }},
      bytes_column<collective_bytes, formula_collective_bytes>("collective_bytes_per_step", "volume", "VOLUME MiB"),
      same("check", "CHECK", [](Rp, Rc r) { return check_cell(r); }),
      same("notes", "NOTES", [](Rp report, Rc r) {
        return one_line(notes(report, r), fold_width() > 0 ? notes_width : std::string::npos);
      })};
  return all;
}

const std::vector<std::string> usual_table = {"strategy",      "world",   "step_time_ns", "interval",
                                              "samples_per_s", "speedup", "efficiency",   "comm_fraction",
                                              "noise",         "means",   "check",        "notes"};
const std::vector<std::string> not_in_csv = {"interval", "check", "notes"};

const Column* find_column(const std::string& name) {
  for (const Column& column : all_columns())
    if (name == column.name || (!column.alias.empty() && name == column.alias)) return &column;
  return nullptr;
}

constexpr std::string_view parameter_prefix = "param.";

// Returns the value of a strategy's parameter in a case: by default that of Report::defaults. Empty if the strategy has
// no such parameter, or if the report has no default values.
std::string parameter_value(const Report& report, const CaseRecord& record, const std::string& name) {
  if (const auto set = record.spec.params.find(name); set != record.spec.params.end()) return set->second;
  const auto strategy = report.defaults.find(record.spec.strategy);
  if (strategy == report.defaults.end()) return "";
  const auto fallback = strategy->second.find(name);
  return fallback == strategy->second.end() ? "" : fallback->second;
}

Column parameter_column(const std::string& name) {
  const Column::Text exact = [name](const Report& report, const CaseRecord& record) {
    return parameter_value(report, record, name);
  };
  const Column::Text cell = [exact](const Report& report, const CaseRecord& record) {
    const std::string value = exact(report, record);
    return value.empty() ? "-" : value;
  };
  return {std::string(parameter_prefix) + name, "", name, false, cell, exact};
}

Column column_named(const std::string& flag, const std::string& name) {
  if (name.starts_with(parameter_prefix)) return parameter_column(name.substr(parameter_prefix.size()));
  if (const Column* found = find_column(name)) return *found;
  std::vector<std::string> known = {"param.NAME"};
  for (const Column& column : all_columns()) known.push_back(column.alias.empty() ? column.name : column.alias);
  throw UsageError(flag + ": unknown column '" + one_line(name, 40) + "'" + did_you_mean(name, known) +
                   "; known: " + join(known));
}

std::string sort_name(const TableView& view) {
  return view.sort.ends_with(descending) ? view.sort.substr(0, view.sort.size() - 5) : view.sort;
}

std::vector<Column> chosen_columns(const std::vector<std::string>& names) {
  std::vector<Column> chosen;
  for (const std::string& name : names) chosen.push_back(column_named("--columns", name));
  return chosen;
}

void check_column(const std::string& flag, const std::string& name, const std::vector<std::string>& parameters) {
  column_named(flag, name);
  if (!name.starts_with(parameter_prefix)) return;
  const std::string parameter = name.substr(parameter_prefix.size());
  if (std::ranges::find(parameters, parameter) == parameters.end())
    throw UsageError(flag + ": unknown column '" + one_line(name, 40) + "': no strategy has the parameter '" +
                     one_line(parameter, 40) + "'" + did_you_mean(parameter, parameters));
}

// True if `a` sorts before `b`: numbers by value, other texts alphabetically.
bool before(const std::string& a, const std::string& b) {
  char *end_a = nullptr, *end_b = nullptr;
  const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
  return *end_a || *end_b ? a < b : x < y;
}

}  // namespace

void check_view(const TableView& view, const std::vector<std::string>& parameters) {
  for (const std::string& name : view.columns) check_column("--columns", name, parameters);
  if (!view.sort.empty()) check_column("--sort", sort_name(view), parameters);
}

std::vector<Column> table_columns(const TableView& view) {
  return chosen_columns(view.columns.empty() ? usual_table : view.columns);
}

std::vector<Column> csv_columns(const Report& report, const TableView& view) {
  if (!view.columns.empty()) return chosen_columns(view.columns);
  std::vector<Column> usual;
  for (const Column& column : all_columns())
    if (std::ranges::find(not_in_csv, column.name) == not_in_csv.end()) usual.push_back(column);
  std::set<std::string> parameters;
  for (const CaseRecord& record : report.cases)
    for (const auto& [name, value] : record.spec.params) parameters.insert(name);
  for (const std::string& name : parameters) usual.push_back(parameter_column(name));
  return usual;
}

std::vector<const CaseRecord*> ordered_cases(const Report& report, const TableView& view) {
  std::vector<std::pair<std::string, const CaseRecord*>> keyed;
  const auto column = view.sort.empty() ? std::nullopt : std::optional(column_named("--sort", sort_name(view)));
  for (const CaseRecord& record : report.cases)
    keyed.emplace_back(column ? column->exact(report, record) : "", &record);
  const bool down = view.sort.ends_with(descending);
  if (column)
    std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
      if (a.first.empty() || b.first.empty()) return !a.first.empty() && b.first.empty();
      return down ? before(b.first, a.first) : before(a.first, b.first);
    });
  std::vector<const CaseRecord*> cases;
  for (const auto& [key, record] : keyed) cases.push_back(record);
  return cases;
}

}  // namespace dpbench
