#include "harness/front/commands/schedule_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/front/run/table.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/text.h"
#include "strategies/schedule/draw.h"
#include "strategies/schedule/lower.h"

namespace dpbench {
namespace {

using pipeline::BubbleOf;
using pipeline::Costs;
using pipeline::Schedule;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string count(size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

// Returns the computing times of one pipeline stage. `costs` has the times of a rank's share of the model, 1/P with P
// ranks; several stages of a rank divide them equally.
Costs of_one_stage(Costs costs, const Schedule& schedule) {
  const double share = static_cast<double>(schedule.world()) / schedule.stages_per_pipeline();
  costs.forward *= share;
  costs.input_gradient *= share;
  costs.weight_gradient *= share;
  if (costs.overlapped >= 0) costs.overlapped *= share;
  return costs;
}

std::string costs_text(const Costs& costs) {
  std::string text =
      "F=" + number(costs.forward) + " B=" + number(costs.input_gradient) + " W=" + number(costs.weight_gradient);
  if (costs.overlapped >= 0) text += " F&B=" + number(costs.overlapped);
  if (costs.link.latency == 0 && costs.link.bytes_per_time == 0) return text + ", free transfers";
  text += ", transfers: latency " + number(costs.link.latency);
  if (costs.link.bytes_per_time > 0)
    text += " + " + number(costs.bytes) + " bytes at " + number(costs.link.bytes_per_time) + " per unit of time";
  return text;
}

std::string title(const ExaminedSchedule& examined) {
  return sizes_text(examined.schedule) + "; " + costs_text(examined.costs);
}

size_t actions_of(const Schedule& schedule, bool compute) {
  size_t total = 0;
  for (const auto& list : schedule.ranks)
    total += static_cast<size_t>(std::ranges::count_if(
        list, [&](const pipeline::Action& action) { return pipeline::is_compute(action.kind) == compute; }));
  return total;
}

double worst(const ExaminedSchedule& examined, BubbleOf of) {
  double most = 0;
  for (int rank = 0; rank < examined.schedule.world(); ++rank)
    most = std::max(most, of == BubbleOf::span ? examined.simulation.ranks[rank].span_bubble()
                                               : examined.simulation.step_bubble(rank));
  return most;
}

int most_live(const ExaminedSchedule& examined) {
  int most = 0;
  for (const auto& rank : examined.simulation.ranks) most = std::max(most, rank.live);
  return most;
}

// Returns a text that compares the simulated pipeline bubble with the closed formula of the schedule's family. If the
// formula does not apply to this simulation, the text names the conditions under which it is exact.
std::string formula_text(const ExaminedSchedule& examined) {
  if (!examined.family) return "";
  const pipeline::Family& family = *examined.family;
  const std::string of = family.bubble_of == BubbleOf::span ? "span bubble" : "bubble";
  const std::string law = "; " + of + " by formula " + family.bubble_text;
  const std::string simulated = number(worst(examined, family.bubble_of));
  if (examined.formula) return law + " = " + number(*examined.formula) + ", simulated " + simulated;
  std::vector<std::string> conditions = {"transfers are free"};
  if (!family.exact_text.empty()) conditions.push_back(family.exact_text);
  if (examined.costs.overlapped >= 0) conditions.emplace_back("F&B = F+B+W");
  return law + ", exact if " + join(conditions) + "; simulated " + simulated;
}

std::vector<Cells> rank_rows(const ExaminedSchedule& examined) {
  std::vector<Cells> rows = {{"RANK", "BUSY", "BUBBLE", "%", "SPAN BUBBLE", "LIVE"}};
  for (int rank = 0; rank < examined.schedule.world(); ++rank) {
    const pipeline::RankTimes& times = examined.simulation.ranks[rank];
    const double bubble = examined.simulation.step_bubble(rank);
    rows.push_back({std::to_string(rank), number(times.busy), number(bubble),
                    percent_of(bubble, examined.simulation.makespan), number(times.span_bubble()),
                    std::to_string(times.live)});
  }
  return rows;
}

Json action_json(const pipeline::Timed& one) {
  return {{"action", pipeline::text_of(one.action)}, {"start", one.start}, {"end", one.end}};
}

Json rank_json(const ExaminedSchedule& examined, int rank) {
  const pipeline::RankTimes& times = examined.simulation.ranks[rank];
  Json json = {{"rank", rank},
               {"busy", times.busy},
               {"bubble", examined.simulation.step_bubble(rank)},
               {"span_bubble", times.span_bubble()},
               {"live_activations", times.live},
               {"computations", Json::array()},
               {"order", Json::array()}};
  for (const pipeline::Timed& one : times.computations) json["computations"].push_back(action_json(one));
  for (const pipeline::Action& action : examined.schedule.ranks[rank])
    json["order"].push_back(pipeline::text_of(action));
  return json;
}

Json fault_json(const pipeline::Fault& fault) {
  Json json = {{"rule", name_of(fault.rule)},
               {"rank", fault.rank},
               {"action", pipeline::text_of(fault.action)},
               {"stage", fault.action.stage},
               {"why", fault.why}};
  if (fault.position) json["position"] = *fault.position;
  if (fault.action.microbatch != pipeline::no_microbatch) json["microbatch"] = fault.action.microbatch;
  return json;
}

void set_declared(Schedule& schedule, const Declared& declared) {
  if (declared.live) schedule.live_limits.assign(schedule.ranks.size(), *declared.live);
  if (declared.slots) schedule.receive_slots = *declared.slots;
}

}  // namespace

ExaminedSchedule examine(Schedule schedule, const pipeline::Family* family, const Costs& costs,
                         const Declared& declared) {
  ExaminedSchedule examined{.schedule = std::move(schedule), .costs = costs, .family = family};
  set_declared(examined.schedule, declared);
  examined.faults = pipeline::verify(examined.schedule);
  if (!examined.right()) return examined;
  const Costs stage_costs = of_one_stage(costs, examined.schedule);
  if (!pipeline::has_transfers(examined.schedule)) {
    examined.schedule = pipeline::lower(examined.schedule, stage_costs);
    set_declared(examined.schedule, declared);
    examined.faults = pipeline::verify(examined.schedule);
  }
  examined.simulation = pipeline::simulate(examined.schedule, stage_costs);
  const int ranks = examined.schedule.world();
  if (family && costs.link.latency == 0 && costs.link.bytes_per_time == 0)
    examined.formula = family->bubble(
        {ranks, examined.schedule.stages_per_pipeline() / ranks, examined.schedule.microbatches}, stage_costs);
  return examined;
}

std::string percent_of(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
  return text;
}

std::string sizes_text(const Schedule& schedule) {
  return one_line(schedule.name, 100) + ": " + count(schedule.world(), "rank") + " with " +
         count(schedule.stages() / schedule.world(), "stage") + " each, " + std::to_string(schedule.microbatches) +
         (schedule.microbatches == 1 ? " micro-batch" : " micro-batches");
}

std::string faults_text(const ExaminedSchedule& examined) {
  constexpr size_t shown = 20;
  std::string text = "broken: " + count(examined.faults.size(), "fault") + "\n";
  for (size_t i = 0; i < std::min(shown, examined.faults.size()); ++i)
    text += "  " + one_line(pipeline::text_of(examined.faults[i]), 400) + "\n";
  if (examined.faults.size() > shown) text += "  and " + std::to_string(examined.faults.size() - shown) + " more\n";
  return text;
}

std::string schedule_text(const ExaminedSchedule& examined, bool colour, size_t width) {
  const std::string head = title(examined) + "\n";
  if (!examined.right()) return folded(head + faults_text(examined));
  const Schedule& schedule = examined.schedule;
  return folded(head + "right: " + std::to_string(pipeline::rule_count) + " rules hold for " +
                count(actions_of(schedule, true), "computation") + " and " +
                std::to_string(actions_of(schedule, false)) + " sends, receives and reductions\n\n") +
         pipeline::draw_text(schedule, examined.simulation, {colour, width}) +
         folded(pipeline::letters_of(schedule) + "; time runs to the right\n\n") +
         aligned(rank_rows(examined), {false, true, true, true, true, true}) +
         folded("makespan " + number(examined.simulation.makespan) + formula_text(examined) + "\n");
}

std::string schedules_text(const std::vector<ExaminedSchedule>& all) {
  std::vector<Cells> rows = {{"SCHEDULE", "RANKS", "STAGES", "MICRO-BATCHES", "MAKESPAN", "BUBBLE", "%", "SPAN BUBBLE",
                              "FORMULA", "LIVE", "VERIFIED"}};
  for (const ExaminedSchedule& one : all) {
    const Schedule& schedule = one.schedule;
    Cells row = {one_line(schedule.name, 40), std::to_string(schedule.world()),
                 std::to_string(schedule.stages_per_pipeline()), std::to_string(schedule.microbatches)};
    if (one.right()) {
      const double bubble = worst(one, BubbleOf::step), makespan = one.simulation.makespan;
      const double share = static_cast<double>(schedule.world()) / schedule.stages_per_pipeline();
      row.insert(row.end(),
                 {number(makespan), number(bubble), percent_of(bubble, makespan), number(worst(one, BubbleOf::span)),
                  one.formula ? number(*one.formula) : "-", number(most_live(one) * share), "right"});
    } else {
      row.insert(row.end(), {"-", "-", "-", "-", "-", "-", name_of(one.faults.front().rule)});
    }
    rows.push_back(row);
  }
  std::string text = folded(costs_text(all.front().costs) + "\n") +
                     aligned(rows, {false, true, true, true, true, true, true, true, true, true, false}) +
                     folded("LIVE: activations that the fullest rank keeps, in micro-batches of 1/P of the model\n");
  for (const ExaminedSchedule& one : all)
    if (!one.right()) text += folded(one_line(one.schedule.name, 40) + " " + faults_text(one));
  return text;
}

std::string schedule_svg(const ExaminedSchedule& examined) {
  return pipeline::draw_svg(examined.schedule, examined.simulation, title(examined));
}

Json schedule_json(const ExaminedSchedule& examined) {
  const Schedule& schedule = examined.schedule;
  Json json = {{"schema", "dpbench.schedule"},
               {"schema_version", {{"major", 1}, {"minor", 0}}},
               {"schedule", sanitised(schedule.name)},
               {"ranks", schedule.world()},
               {"stages", schedule.stages_per_pipeline()},
               {"pipelines", schedule.pipelines},
               {"microbatches", schedule.microbatches},
               {"rank_of_stage", schedule.rank_of},
               {"costs",
                {{"f", examined.costs.forward},
                 {"b", examined.costs.input_gradient},
                 {"w", examined.costs.weight_gradient},
                 {"send", examined.costs.link.latency},
                 {"bytes", examined.costs.bytes},
                 {"rate", examined.costs.link.bytes_per_time}}},
               {"right", examined.right()},
               {"faults", Json::array()}};
  for (const pipeline::Fault& fault : examined.faults) json["faults"].push_back(fault_json(fault));
  if (!examined.right()) return json;
  json["receive_slots"] = schedule.receive_slots;
  json["makespan"] = examined.simulation.makespan;
  json["bubble"] = worst(examined, BubbleOf::step);
  json["span_bubble"] = worst(examined, BubbleOf::span);
  if (examined.formula)
    json["formula"] = {{"text", examined.family->bubble_text},
                       {"of", examined.family->bubble_of == BubbleOf::span ? "span_bubble" : "bubble"},
                       {"value", *examined.formula}};
  json["per_rank"] = Json::array();
  for (int rank = 0; rank < schedule.world(); ++rank) json["per_rank"].push_back(rank_json(examined, rank));
  return json;
}

std::string families_text() {
  std::vector<Cells> rows = {{"SCHEDULE", "NEEDS", "BUBBLE", "EXACT IF", "SOURCE", "SUMMARY"}};
  for (const pipeline::Family& family : pipeline::families()) {
    const std::string of = family.bubble_of == BubbleOf::span ? " (span)" : "";
    rows.push_back({family.name, family.requires_text.empty() ? "-" : family.requires_text, family.bubble_text + of,
                    family.exact_text.empty() ? "always" : family.exact_text, family.source, family.summary});
  }
  std::vector<Cells> rules = {{"RULE", "MEANING"}};
  for (size_t i = 0; i < pipeline::rule_count; ++i) {
    const auto rule = static_cast<pipeline::Rule>(i);
    rules.push_back({name_of(rule), pipeline::meaning_of(rule)});
  }
  return aligned(rows, std::vector<bool>(6, false)) +
         folded(
             "P ranks (--stages), V stages on each (--chunks), M micro-batches; F, B, W: times of 1/P of the model\n"
             "A bubble is a rank's idle time in a step; a span bubble, between its own first and last action.\n\n") +
         aligned(rules, {false, false});
}

}  // namespace dpbench
