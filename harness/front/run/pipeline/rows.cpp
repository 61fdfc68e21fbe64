#include "harness/front/run/pipeline/rows.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "harness/report/export/trace.h"
#include "harness/report/record/fields.h"

namespace dpbench {
namespace {

using pipeline::Action;
using pipeline::Timed;

constexpr char ran_category[] = "pipeline", planned_category[] = "planned pipeline";
// Thread ids of the rows that pipelines have in a trace. The ids are above those of the rows of collectives.
constexpr int64_t ran_row = 1'100'000'000, planned_row = ran_row + 100, transfers_row = ran_row + 1000;
constexpr size_t most_places = 4096;

// The place of a trace's span: its pipeline, the position of its rank in the pipeline, and its training step.
struct SpanPlace {
  size_t pipeline = 0, place = 0;
  int64_t step = 0;
};

// Collects the spans of pipeline actions by pipeline and step. An action with two spans lasts from the begin of the
// first to the end of the second.
class CollectedSpans {
 public:
  void add(const SpanPlace& at, const Timed& span) {
    auto& ranks = steps_[at.pipeline][at.step];
    ranks.resize(std::max(ranks.size(), at.place + 1));
    Timed& whole = ranks[at.place].emplace(span.action, span).first->second;
    whole.start = std::min(whole.start, span.start);
    whole.end = std::max(whole.end, span.end);
  }
  // Returns the steps of each pipeline, with the actions that each of its ranks ran. Keys: the pipeline's number, then
  // the training step's.
  std::map<size_t, std::map<int64_t, RanStep>> steps() const {
    std::map<size_t, std::map<int64_t, RanStep>> all;
    for (const auto& [pipeline, steps] : steps_)
      for (const auto& [number, ranks] : steps)
        for (const auto& actions : ranks) {
          auto& list = all[pipeline][number].emplace_back();
          for (const auto& [action, span] : actions) list.push_back(span);
          std::ranges::sort(list, {}, &Timed::start);
        }
    return all;
  }

 private:
  std::map<size_t, std::map<int64_t, std::vector<std::map<Action, Timed>>>> steps_;
};

// Parses the name that pipeline::trace_name() gives a span. Returns nullopt for other names.
std::optional<std::pair<int64_t, Action>> recorded_action(const std::string& name) {
  if (!name.starts_with(pipeline::trace_prefix)) return std::nullopt;
  int64_t step = 0;
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + pipeline::trace_prefix.size(), last, step);
  if (error != std::errc() || end == last || *end != ' ') return std::nullopt;
  return std::pair{step, pipeline::parse_action({end + 1, static_cast<size_t>(last - end - 1)}, "trace")};
}

CollectedSpans recorded_spans(const Json& trace, const std::vector<std::vector<int>>& pipelines) {
  // Place of each rank in the pipelines; the key is the rank's process id in the trace.
  std::map<int64_t, SpanPlace> places;
  for (size_t p = 0; p < pipelines.size(); ++p)
    for (size_t place = 0; place < pipelines[p].size(); ++place)
      places[pipelines[p][place] * rows_per_rank] = {.pipeline = p, .place = place};
  CollectedSpans spans;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("ph", "") != span_event || event.value("cat", "") != "user_annotation") continue;
    const auto action = recorded_action(event.value("name", ""));
    const auto place = places.find(event.at("pid").get<int64_t>());
    if (!action || place == places.end()) continue;
    const double start = event.at("ts").get<double>();
    spans.add({place->second.pipeline, place->second.place, action->first},
              {action->second, start, start + event.at("dur").get<double>()});
  }
  return spans;
}

const Timed* slot_of(const pipeline::RankTimes& planned, const Action& action) {
  for (const auto* list : {&planned.computations, &planned.transfers})
    if (const auto one = std::ranges::find(*list, action, &Timed::action); one != list->end()) return &*one;
  return nullptr;
}

// Adds the rows of one rank of a pipeline to a trace. rank: the rank's number in the trace. at: the pipeline and the
// rank's position in it; at.step is unused.
void add_rank_rows(Json& events, int rank, SpanPlace at, const std::map<int64_t, RanStep>& steps,
                   const MeasuredPipeline& measured) {
  const int64_t process = rank * rows_per_rank;
  SpanRows ran(events, process, ran_row, "pipeline, as it ran");
  SpanRows planned(events, process, planned_row, "pipeline, planned");
  SpanRows transfers(events, process, transfers_row, "pipeline, transfers");
  const pipeline::RankTimes& plan = measured.planned.ranks[at.place];
  for (const auto& [number, step] : steps) {
    if (actions_in(step) != measured.schedule.ranks) continue;
    const double zero = start_of(step);
    const Json where = {{"pipeline", at.pipeline}, {"place", at.place}, {"step", number}};
    for (const Timed& one : step[at.place]) {
      Json args = where;
      args.update({{"start_us", one.start - zero}, {"end_us", one.end - zero}});
      if (const Timed* slot = slot_of(plan, one.action))
        args.update({{"planned_start_us", slot->start}, {"planned_end_us", slot->end}});
      SpanRows& rows = pipeline::is_compute(one.action.kind) ? ran : transfers;
      rows.add(ran_category, pipeline::text_of(one.action), one.start, one.end, std::move(args));
    }
    for (const Timed& slot : plan.computations)
      planned.add(planned_category, pipeline::text_of(slot.action), zero + slot.start, zero + slot.end, where);
  }
}

}  // namespace

void add_pipeline_rows(Json& trace, const std::vector<std::vector<int>>& pipelines) {
  for (const auto& [p, steps] : recorded_spans(trace, pipelines).steps()) {
    std::vector<RanStep> list;
    for (const auto& [number, step] : steps) list.push_back(step);
    const MeasuredPipeline measured = measure_pipeline(list, "pipeline " + std::to_string(p));
    for (size_t place = 0; place < measured.planned.ranks.size(); ++place)
      add_rank_rows(trace["traceEvents"], pipelines[p][place], {.pipeline = p, .place = place}, steps, measured);
  }
}

std::vector<TracedPipeline> traced_pipelines(const Json& trace, const std::string& name) {
  CollectedSpans spans;
  std::map<size_t, std::map<size_t, int>> ranks;
  Fields(trace, name).each("traceEvents", [&](const Json& event, const std::string& path) {
    const Fields fields(event, path);
    if (fields.get_or<std::string>("cat", "") != ran_category) return;
    const Fields args(fields.at("args"), fields.path("args"));
    const SpanPlace at{.pipeline = args.get<size_t>("pipeline"),
                       .place = args.get<size_t>("place"),
                       .step = args.get<int64_t>("step")};
    if (at.place >= most_places) throw UsageError(args.path("place") + " is too large");
    const double start = fields.get<double>("ts") * 1e-3;
    spans.add(at, {pipeline::parse_action(fields.get<std::string>("name"), path), start,
                   start + fields.get<double>("dur") * 1e-3});
    ranks[at.pipeline][at.place] = static_cast<int>(fields.get<int64_t>("pid") / rows_per_rank);
  });
  std::vector<TracedPipeline> all;
  for (const auto& [p, steps] : spans.steps()) {
    TracedPipeline& one = all.emplace_back();
    for (const auto& [number, step] : steps) one.steps.push_back(step);
    for (const auto& [place, rank] : ranks[p]) one.ranks.push_back(rank);
  }
  return all;
}

}  // namespace dpbench
