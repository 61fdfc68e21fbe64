// Prints a projection as a table and as JSON. Each output is marked as a projection.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/forecast/output.h"
#include "harness/forecast/project/projection.h"
#include "harness/forecast/project/projection_document.h"
#include "harness/report/validate/schema.h"

namespace dpbench {
namespace {

// Returns the time in milliseconds with four significant digits.
std::string ms(double seconds) {
  const double value = seconds * 1e3;
  if (!(value > 0) || !std::isfinite(value)) return value == 0 ? "0" : "-";
  const int decimals = std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 6);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string percent_of(double part) { return text_of_number(100 * part, "%.0f %%"); }

std::string micro(double seconds) { return text_of_number(seconds * 1e6, "%.3g us"); }

std::string rate(double seconds_per_byte) {
  return seconds_per_byte > 0 ? text_of_number(1e-9 / seconds_per_byte, "%.3g GB/s") : "no limit";
}

std::string plain_name(const StepTime& time) { return name_of(time.algorithm); }

constexpr double in_ns(double seconds) { return seconds * 1e9; }

// Formats an interval, e.g. "2.8 to 3.1", or "-" if it is unknown.
template <class Text>
std::string span_text(const Interval95& band, Text text) {
  return band ? text(band->low) + " to " + text(band->high) : "-";
}

FittedParameter fitted_parameter(double value, const Interval95& band) {
  FittedParameter parameter{.value = value};
  if (band) parameter.ci95 = {band->low, band->high};
  return parameter;
}

ProjectedCase projected_case(const ProjectedWorld& world) {
  ProjectedCase row{world.spec};
  ProjectedSummary& step = row.stats.step_time_ns;
  step = {.median = in_ns(world.time.step_s), .interval = world.step_s ? "fit" : "none"};
  if (world.step_s) step.low = in_ns(world.step_s->low), step.high = in_ns(world.step_s->high);
  row.derived = {.samples_per_s = world.samples_per_s,
                 .efficiency = world.efficiency,
                 .own_efficiency = world.own_efficiency,
                 .communication_ns = in_ns(world.time.communication_s),
                 .exposed_ns = in_ns(world.time.exposed_s)};
  row.allreduce = world.time.algorithm;
  if (world.measured_s) row.measured_step_ns = in_ns(*world.measured_s);
  row.hidden = world.time.hidden;
  return row;
}

SeriesRow series_row(const ProjectedSeries& s) {
  SeriesRow row{.spec = s.spec,
                .fit = {.compute_s = fitted_parameter(s.fit.compute_s, s.compute_s),
                        .latency_s = fitted_parameter(s.fit.latency_s, s.latency_s),
                        .seconds_per_byte = fitted_parameter(s.fit.seconds_per_byte, s.seconds_per_byte),
                        .separable = s.separable,
                        .error = s.fit.error},
                .collectives = s.shape.collectives,
                .first_exposed_world = s.first_exposed};
  for (const FittedWorld& one : s.fitted) row.fitted.push_back({one.world, in_ns(one.measured_s), in_ns(one.fitted_s)});
  for (const ProjectedWorld& world : s.worlds) row.cases.push_back(projected_case(world));
  return row;
}

}  // namespace

std::vector<std::vector<std::string>> projection_rows(const ProjectedSeries& s) {
  std::vector<std::vector<std::string>> rows = {{"WORLD", "KIND", "STEP ms", "95 % OF THE FIT", "SAMPLES/s",
                                                 "OWN EFFIC", "COMM ms", "EXPOSED", "ALLREDUCE", "OFF BY"}};
  for (const FittedWorld& one : s.fitted)
    rows.push_back({std::to_string(one.world), "measured", ms(one.measured_s), "fitted " + ms(one.fitted_s), "-", "-",
                    "-", "-", "-", text_of_number(100 * (one.fitted_s / one.measured_s - 1), "%+.1f %%")});
  for (const ProjectedWorld& world : s.worlds)
    rows.push_back({std::to_string(world.spec.world), "projected", ms(world.time.step_s), span_text(world.step_s, ms),
                    text_of_number(world.samples_per_s, "%.0f"), percent_of(world.own_efficiency),
                    ms(world.time.communication_s), percent_of(world.time.exposed_s / world.time.step_s),
                    plain_name(world.time),
                    world.measured_s ? text_of_number(100 * (world.time.step_s / *world.measured_s - 1), "%+.1f %%") +
                                           ", measured " + ms(*world.measured_s)
                                     : "-"});
  return rows;
}

const std::vector<bool>& projection_columns_right() {
  static const std::vector<bool> right = {true, false, true, true, true, true, true, true, false, false};
  return right;
}

std::string projection_heading(const ProjectedSeries& s) {
  const CaseSpec& spec = s.spec;
  std::string text = "PROJECTION, not measured: " + spec.strategy + " · " + spec.workload + " · " +
                     (spec.device == Device::cuda ? "GPU" : "CPU") + " · " + spec.backend + " · " + spec.scaling +
                     " scaling, ";
  text += spec.scaling == Scaling::strong ? "global batch " : "samples per device ";
  text += std::to_string(spec.batch) + " · " + spec.dtype;
  for (const auto& [name, value] : spec.params) text += " · " + name + "=" + value;
  return text;
}

std::vector<std::string> projection_remarks(const ProjectedSeries& s) {
  std::string worlds;
  for (const FittedWorld& one : s.fitted) worlds += (worlds.empty() ? "" : ", ") + std::to_string(one.world);
  double bytes = 0;
  for (const StepCollective& one : s.shape.collectives) bytes += one.bytes;
  Interval95 slowest_first = s.seconds_per_byte;
  if (slowest_first) std::swap(slowest_first->low, slowest_first->high);
  std::vector<std::string> all = {
      "fitted to worlds " + worlds + ": computing " + ms(s.fit.compute_s) + " ms a step (" +
          span_text(s.compute_s, ms) + "), latency " + micro(s.fit.latency_s) + " (" + span_text(s.latency_s, micro) +
          "), bandwidth " + rate(s.fit.seconds_per_byte) + " (" + span_text(slowest_first, rate) + "); off by " +
          text_of_number(100 * s.fit.error, "%.1f %%"),
      std::to_string(s.shape.collectives.size()) + (s.shape.collectives.size() == 1 ? " collective" : " collectives") +
          " a step, " + text_of_number(bytes * 1e-6, "%.4g MB")};
  if (!s.compute_s)
    all.push_back(
        "no interval: a fitted world has only one block per launch and fewer than 3 launches. Use more of either");
  if (!s.separable)
    all.push_back(
        "these devices share cores and copy in turn: latency and bandwidth cannot be told apart, only their sum");
  all.push_back(s.first_exposed
                    ? "communication can no longer be hidden from world " + std::to_string(*s.first_exposed) + " on"
                    : "communication stays hidden up to world 1048576");
  return all;
}

Json to_json(const Projection& p) {
  ProjectionDocument document{
      .run = p.run, .network = p.asked.network, .algorithm = p.asked.algorithm, .left_out = p.left_out};
  for (const ProjectedSeries& one : p.series) document.series.push_back(series_row(one));
  return write_document(document);
}

Json projection_schema() { return document_schema<ProjectionDocument>(); }

}  // namespace dpbench
