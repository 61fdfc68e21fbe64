#include "harness/front/run/pipeline/ran_steps.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "harness/report/stats/stats.h"
#include "strategies/schedule/csv.h"
#include "strategies/schedule/verify.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

using pipeline::Action;
using pipeline::Costs;
using pipeline::Family;
using pipeline::Kind;
using pipeline::Schedule;
using pipeline::Timed;

Schedule schedule_in(const RanStep& step, const std::string& name) {
  // Write the actions as CSV text and read the text as a schedule, because the CSV reader finds the rank of each stage.
  Schedule schedule = pipeline::read_csv(pipeline::write_csv({.ranks = actions_in(step)}), name);
  if (schedule.ranks.size() != step.size()) throw UsageError(name + ": a rank of the pipeline has no actions");
  if (const auto faults = pipeline::verify(schedule); !faults.empty())
    throw UsageError(name + ": the actions are no schedule: " + pipeline::text_of(faults.front()));
  return schedule;
}

const Family* family_with(const Schedule& schedule) {
  const pipeline::Request request{
      .ranks = schedule.world(), .chunks = schedule.stages() / schedule.world(), .microbatches = schedule.microbatches};
  const auto computations = pipeline::without_transfers(schedule).ranks;
  for (const Family& family : pipeline::families())
    if (request.chunks >= family.least_chunks && request.chunks <= family.most_chunks &&
        family.refusal(request).empty() && pipeline::make_schedule(family, request).ranks == computations)
      return &family;
  return nullptr;
}

const Timed& span_of(const std::vector<Timed>& list, const Action& action) {
  return *std::ranges::find(list, action, &Timed::action);
}

// Collects the times of a step's transfers, by sending and receiving rank. Leaves out transfers during which the
// receiving rank computed, because it did not notice when the tensor arrived.
void add_transfers(const RanStep& step, const Schedule& schedule,
                   std::map<std::pair<int, int>, std::vector<double>>& times) {
  for (int to = 0; to < schedule.world(); ++to)
    for (const Timed& receive : step[static_cast<size_t>(to)]) {
      if (!pipeline::is_receive(receive.action.kind)) continue;
      const Action send = pipeline::counterpart(receive.action);
      const int from = schedule.rank_of[static_cast<size_t>(send.stage)];
      const double sent = span_of(step[static_cast<size_t>(from)], send).start;
      const bool computed = std::ranges::any_of(step[static_cast<size_t>(to)], [&](const Timed& one) {
        return pipeline::is_compute(one.action.kind) && one.start < receive.end && one.end > sent;
      });
      if (!computed) times[{from, to}].push_back(receive.end - sent);
    }
}

// Returns the mean time that a stage takes for the actions `kinds` of a micro-batch; 0 if no stage ran them.
double mean_time(const Costs& costs, const Schedule& schedule, std::initializer_list<Kind> kinds) {
  double sum = 0;
  for (const auto& list : schedule.ranks)
    for (const Action& action : list)
      if (std::ranges::count(kinds, action.kind) > 0) sum += costs.stage_times.at({action.stage, action.kind});
  return sum / (schedule.stages() * schedule.microbatches);
}

Costs median_costs(const std::vector<RanStep>& steps, const Schedule& schedule) {
  std::map<std::pair<int, Kind>, std::vector<double>> computations;
  std::map<std::pair<int, int>, std::vector<double>> transfers;
  for (const RanStep& step : steps) {
    for (const auto& list : step)
      for (const Timed& one : list)
        if (pipeline::is_compute(one.action.kind))
          computations[{one.action.stage, one.action.kind}].push_back(one.end - one.start);
    add_transfers(step, schedule, transfers);
  }
  Costs costs;
  for (const auto& [of, times] : computations) costs.stage_times[of] = median(times);
  for (const auto& [ends, times] : transfers) costs.links[ends] = {.latency = median(times)};
  costs.forward = mean_time(costs, schedule, {Kind::forward});
  // A full backward pass (gradients of input and weights) is measured as a whole, but the simulation takes two times
  // for it: all of its time counts as input_gradient, none as weight_gradient.
  costs.input_gradient = mean_time(costs, schedule, {Kind::input_gradient, Kind::full_backward});
  costs.weight_gradient = mean_time(costs, schedule, {Kind::weight_gradient});
  return costs;
}

pipeline::Simulation as_simulation(const RanStep& step, const Schedule& schedule) {
  pipeline::Simulation ran;
  const double start = start_of(step);
  for (size_t rank = 0; rank < step.size(); ++rank) {
    pipeline::RankTimes& times = ran.ranks.emplace_back();
    for (const Timed& one : step[rank]) {
      const bool computes = pipeline::is_compute(one.action.kind);
      (computes ? times.computations : times.transfers).push_back({one.action, one.start - start, one.end - start});
      if (computes) times.busy += one.end - one.start;
    }
    times.first = times.computations.front().start;
    times.last = times.computations.back().end;
    times.live = pipeline::live_activations(schedule.ranks[rank]);
    ran.makespan = std::max(ran.makespan, times.last);
  }
  return ran;
}

}  // namespace

std::vector<std::vector<Action>> actions_in(const RanStep& step) {
  std::vector<std::vector<Action>> ranks;
  for (const auto& list : step) {
    ranks.emplace_back();
    for (const Timed& one : list) ranks.back().push_back(one.action);
  }
  return ranks;
}

double start_of(const RanStep& step) {
  std::vector<double> starts;
  for (const auto& list : step)
    for (const Timed& one : list)
      if (pipeline::is_compute(one.action.kind)) starts.push_back(one.start);
  return std::ranges::min(starts);
}

MeasuredPipeline measure_pipeline(const std::vector<RanStep>& steps, const std::string& name) {
  if (steps.empty()) throw UsageError(name + ": there is no step");
  MeasuredPipeline measured{.schedule = schedule_in(steps.front(), name)};
  std::vector<RanStep> same;
  for (const RanStep& step : steps)
    if (actions_in(step) == measured.schedule.ranks) same.push_back(step);
  measured.family = family_with(measured.schedule);
  if (measured.family) measured.schedule.name = measured.family->name;
  measured.steps = same.size();
  measured.costs = median_costs(same, measured.schedule);
  measured.planned = pipeline::simulate(measured.schedule, measured.costs);
  std::vector<pipeline::Simulation> ran;
  for (const RanStep& step : same) ran.push_back(as_simulation(step, measured.schedule));
  const auto middle = ran.begin() + static_cast<std::ptrdiff_t>((ran.size() - 1) / 2);
  std::ranges::nth_element(ran, middle, {}, &pipeline::Simulation::makespan);
  measured.ran = std::move(*middle);
  return measured;
}

}  // namespace dpbench
