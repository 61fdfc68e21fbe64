#include "harness/forecast/project/projection.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "harness/report/figures/disturbance.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/text/pattern.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int draws = 400;
// Least number of measured worlds for a fit, which has three parameters: computing, latency and bandwidth.
constexpr size_t worlds_needed = 3;
constexpr double normal_95 = 1.959964;

using Series = std::vector<const CaseRecord*>;  // one case measured in several worlds, sorted by world

// Returns the report's cases that match the filter, grouped into series. A series is one case measured in several
// worlds. Adds matching cases on a mesh, which are not projected, to `left_out` with the reason.
std::vector<Series> series_of(const Report& report, const std::string& filter, std::vector<std::string>& left_out) {
  const NamePattern wanted(filter);
  std::vector<Series> found;
  for (const CaseRecord& record : report.cases) {
    if (record.spec.baseline || !wanted.matches(record.spec.id)) continue;
    if (!record.spec.mesh.empty()) {
      left_out.push_back(record.spec.id + ": its ranks form the mesh " + record.spec.mesh +
                         "; only replicas on a single axis are projected. `dpbench plan` predicts meshes of a gpt");
      continue;
    }
    const auto same = [&](const Series& one) {
      return one[0]->spec.oversubscribe == record.spec.oversubscribe &&
             same_setting(one[0]->spec, record.spec, {.world = true});
    };
    const auto at = std::find_if(found.begin(), found.end(), same);
    if (at == found.end())
      found.push_back({&record});
    else
      at->push_back(&record);
  }
  for (Series& one : found)
    std::sort(one.begin(), one.end(), [](auto* a, auto* b) { return a->spec.world < b->spec.world; });
  return found;
}

// Returns the first rank whose profile lists the collectives of a step, or null if there is none.
const RankRecord* profiled_rank(const CaseRecord& record) {
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      if (rank.profile && !rank.profile->collectives.empty()) return &rank;
  return nullptr;
}

Series measured_of(const Series& all) {
  Series measured;
  for (const CaseRecord* record : all)
    if (record->ok() && record->step_time_ns) measured.push_back(record);
  return measured;
}

bool was_profiled(const CaseRecord& record) {
  if (record.launches.empty() || record.launches[0].ranks.empty()) return false;
  const auto& profile = record.launches[0].ranks[0].profile;
  return profile && !profile->disturbed;
}

// Returns the reason why no model can be fitted to the step times of these worlds; empty if one can.
std::string reason_against(const Series& measured) {
  const auto any = [&](auto has) { return std::any_of(measured.begin(), measured.end(), has); };
  if (any([](const CaseRecord* r) { return was_profiled(*r); }) &&
      !any([](const CaseRecord* r) { return profiled_rank(*r); }))
    return "its steps do not have the same collectives, or have none";
  std::set<int> worlds;
  for (const CaseRecord* record : measured) worlds.insert(record->spec.world);
  if (worlds.size() < worlds_needed) {
    std::string have;
    for (const int world : worlds) have += (have.empty() ? "" : ", ") + std::to_string(world);
    return (have.empty() ? "has no measured world" : "was measured only in worlds " + have) +
           std::string("; a fit of computing, latency and bandwidth needs three");
  }
  return any([](const CaseRecord* r) { return profiled_rank(*r); }) ? ""
                                                                    : "has no record of its collectives: run it again";
}

double share_of(const std::map<std::string, double>& phases, const std::string& name) {
  const auto found = phases.find(name);
  return found == phases.end() ? 0 : found->second;
}

// Returns the time of all phases of a step except communication and waiting.
double computing_of(const std::map<std::string, double>& phases) {
  static const std::set<std::string> between_ranks = {"communication", "waiting"};
  double sum = 0;
  for (const auto& [name, ns] : phases)
    if (!between_ranks.contains(name)) sum += ns;
  return sum;
}

constexpr const char* backward_pass = "backward";

// True for a collective that the model overlaps with computation: one that began in the backward pass, such as the
// reduction of a bucket.
bool hides(const CollectiveRecord& one) { return one.phase == backward_pass; }

double whole_bytes(const CollectiveRecord& one, int world) {
  return static_cast<double>(one.bytes) * (one.op == "allgather" ? world : 1);
}

// Estimates when a gradient bucket is ready, as a fraction of the step's computing, for collectives without a usable
// start time. Assumes that the backward pass progresses in proportion to the bytes of finished gradients. part:
// finished bytes as a fraction of all bytes.
double ready_by_bytes(const std::map<std::string, double>& phases, double part) {
  const double before = share_of(phases, "data") + share_of(phases, "scatter") + share_of(phases, "forward");
  return (before + part * share_of(phases, backward_pass)) / computing_of(phases);
}

std::vector<StepCollective> collectives_of(const RankRecord& rank, int world, double backward_end) {
  double all = 0, so_far = 0, blocked = 0;
  for (const auto& one : rank.profile->collectives)
    if (hides(one)) all += whole_bytes(one, world);
  const double computing = computing_of(rank.phases_ns);
  std::vector<StepCollective> collectives;
  for (const auto& one : rank.profile->collectives) {
    StepCollective item{.op = one.op, .bytes = whole_bytes(one, world), .hides = hides(one)};
    if (item.hides) {
      so_far += item.bytes;
      // Use measured start times of collectives only in world 1: in larger worlds they would include waiting for other
      // ranks.
      const bool timed = one.start_ns && world == 1;
      item.ready = timed ? (*one.start_ns - blocked) / computing : ready_by_bytes(rank.phases_ns, so_far / all);
      item.ready = std::clamp(item.ready, 0.0, backward_end);
    } else if (one.start_ns && one.end_ns) {
      blocked += *one.end_ns - *one.start_ns;
    }
    collectives.push_back(std::move(item));
  }
  return collectives;
}

bool has_interval(const CaseRecord& record) {
  const Summary& s = *record.step_time_ns;
  return s.interval != IntervalOver::none && s.ci95_low && *s.ci95_low > 0;
}

double sigma_of(const CaseRecord& record) {
  const Summary& s = *record.step_time_ns;
  return std::log(*s.ci95_high / *s.ci95_low) / (2 * normal_95);
}

std::vector<WorldTime> times_of(const Series& one) {
  std::vector<WorldTime> times;
  for (const CaseRecord* record : one) times.push_back({record->spec.world, record->step_time_ns->median * 1e-9});
  return times;
}

// Returns fits for a parametric bootstrap: each is fitted to step times drawn at random from the measured confidence
// intervals (log-normal). Empty if a step time has no interval.
std::vector<Fit> bootstrap_fits(const Series& one, const StepShape& shape, Algorithm algorithm) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<Fit> fits;
  if (!std::all_of(one.begin(), one.end(), [](const CaseRecord* record) { return has_interval(*record); })) return {};
  for (int i = 0; i < draws; ++i) {
    auto times = times_of(one);
    for (size_t w = 0; w < times.size(); ++w) times[w].step_s *= std::exp(sigma_of(*one[w]) * normal(random));
    fits.push_back(fit_steps(shape, algorithm, times));
  }
  return fits;
}

template <class Get>
Interval95 band_of(const std::vector<Fit>& fits, double middle, Get get) {
  if (fits.empty()) return std::nullopt;
  std::vector<double> values;
  for (const Fit& fit : fits) values.push_back(get(fit));
  return Band{std::min(middle, quantile(values, 0.025)), std::max(middle, quantile(values, 0.975))};
}

// Returns the allreduce algorithm for which latency and bandwidth are fitted. The fitted values hold only for this
// algorithm, so predictions from them use it too instead of the fastest one.
Algorithm fitted_algorithm(const ProjectionRequest& asked) {
  return asked.algorithm == Algorithm::tree ? Algorithm::tree : Algorithm::ring;
}

// Predicts the step time of a world on the requested network, where each device has its own cores. If no network is
// requested, uses the latency and bandwidth fitted to the measured step times.
StepTime predicted(const StepShape& shape, const Fit& fit, int world, const ProjectionRequest& asked) {
  if (!asked.network) return step_time(shape, fit.compute_s, world, fit.network(), fitted_algorithm(asked));
  StepShape apart = shape;
  apart.cores = 0;
  return step_time(apart, fit.compute_s, world, *asked.network, asked.algorithm);
}

ProjectedWorld project_world(const Report& report, const ProjectedSeries& series, const std::vector<Fit>& fits,
                             int world, const ProjectionRequest& asked) {
  ProjectedWorld result{.spec = series.spec, .time = predicted(series.shape, series.fit, world, asked)};
  result.spec.world = world;
  result.spec.processes = world;
  result.spec.id = case_id(result.spec);
  result.step_s = band_of(fits, result.time.step_s,
                          [&](const Fit& fit) { return predicted(series.shape, fit, world, asked).step_s; });
  const double rows = static_cast<double>(result.spec.global_batch());
  const double alone = predicted(series.shape, series.fit, 1, asked).step_s;
  result.samples_per_s = rows / result.time.step_s;
  result.own_efficiency = alone / result.time.step_s / (series.shape.strong ? world : 1);
  if (const CaseRecord* baseline = baseline_of(report, result.spec); baseline && baseline->derived.samples_per_s)
    result.efficiency = result.samples_per_s / *baseline->derived.samples_per_s / world;
  return result;
}

// Highest number of the ranks' threads per core for which step times over gloo are projected. Above it, measured steps
// took up to twice as long as predicted, because ranks that share cores wake each other through the kernel.
constexpr double most_gloo_ranks_per_core = 2.5;

// Returns the reason why no step time is projected for this world (number of replicas); empty if one is. fitted: the
// largest world that was fitted.
std::string reason_against(const CaseSpec& spec, int world, int fitted, int cores, bool own_network) {
  const bool shared = spec.backend == "gloo" && spec.device == Device::cpu && !own_network && cores > 0;
  if (shared && world > fitted && static_cast<double>(world) * spec.threads > most_gloo_ranks_per_core * cores)
    return std::to_string(world) + " ranks over gloo that share " + std::to_string(cores) +
           " cores take up to twice as long as this model says: measure this world, or give --link for hosts of their "
           "own";
  if (spec.scaling != Scaling::strong || spec.batch / world >= spec.accumulate) return "";
  return "a batch of " + std::to_string(spec.batch) + " samples is too small for " + std::to_string(world) + " ranks" +
         (spec.accumulate > 1 ? " with " + std::to_string(spec.accumulate) + " micro-batches" : "");
}

std::string id_in(CaseSpec spec, int world) {
  spec.world = spec.processes = world;
  return case_id(spec);
}

Series fitted_of(const Series& measured, const std::vector<int>& from) {
  if (from.empty()) return measured;
  Series fitted;
  for (const CaseRecord* record : measured)
    if (std::find(from.begin(), from.end(), record->spec.world) != from.end()) fitted.push_back(record);
  return fitted;
}

void compare_with_measured(ProjectedSeries& series, const Series& measured, const Series& fitted) {
  for (ProjectedWorld& world : series.worlds)
    for (const CaseRecord* record : measured)
      if (record->spec.world == world.spec.world && std::find(fitted.begin(), fitted.end(), record) == fitted.end())
        world.measured_s = record->step_time_ns->median * 1e-9;
}

ProjectedSeries project_series(const Report& report, const Series& one, int cores, const ProjectionRequest& asked,
                               std::vector<std::string>& left_out) {
  ProjectedSeries series{.spec = one[0]->spec, .shape = shape_of(one, cores)};
  const Algorithm algorithm = fitted_algorithm(asked);
  series.fit = fit_steps(series.shape, algorithm, times_of(one));
  const auto fits = bootstrap_fits(one, series.shape, algorithm);
  series.compute_s = band_of(fits, series.fit.compute_s, [](const Fit& f) { return f.compute_s; });
  series.latency_s = band_of(fits, series.fit.latency_s, [](const Fit& f) { return f.latency_s; });
  series.seconds_per_byte = band_of(fits, series.fit.seconds_per_byte, [](const Fit& f) { return f.seconds_per_byte; });
  series.separable = algorithm != Algorithm::ring || std::any_of(one.begin(), one.end(), [&](const CaseRecord* r) {
                       return r->spec.world > 1 &&
                              series.shape.copying(r->spec.world) * cores != double(r->spec.world) * r->spec.threads;
                     });
  for (const auto& [world, step_s] : times_of(one))
    series.fitted.push_back(
        {world, step_s, step_time(series.shape, series.fit.compute_s, world, series.fit.network(), algorithm).step_s});
  for (const int world : asked.to)
    if (const std::string against =
            reason_against(series.spec, world, one.back()->spec.world, cores, asked.network.has_value());
        against.empty())
      series.worlds.push_back(project_world(report, series, fits, world, asked));
    else
      left_out.push_back(id_in(series.spec, world) + ": " + against);
  StepShape apart = series.shape;
  if (asked.network) apart.cores = 0;
  series.first_exposed = first_exposed_world(apart, series.fit.compute_s, asked.network.value_or(series.fit.network()),
                                             asked.network ? asked.algorithm : std::optional(algorithm));
  return series;
}

void require_worlds(const ProjectionRequest& asked) {
  for (const int world : asked.to)
    if (asked.network && !asked.network->fills_hosts(world))
      throw UsageError("--to " + std::to_string(world) + ": must be a multiple of the " +
                       std::to_string(asked.network->host_size) + " devices per host (--hosts)");
}

}  // namespace

StepShape shape_of(const std::vector<const CaseRecord*>& worlds, int cores) {
  StepShape shape;
  const CaseSpec& spec = worlds.at(0)->spec;
  shape.strong = spec.scaling == Scaling::strong;
  shape.threads = spec.threads;
  shape.cores = spec.device == Device::cpu ? cores : 0;
  for (const CaseRecord* record : worlds) {
    const RankRecord* rank = profiled_rank(*record);
    if (!rank || computing_of(rank->phases_ns) <= 0) continue;
    const double after = share_of(rank->phases_ns, "optimizer") / computing_of(rank->phases_ns);
    shape.backward_end = 1 - after;
    shape.fixed = shape.strong ? after : 0;
    shape.collectives = collectives_of(*rank, record->spec.world, shape.backward_end);
    break;
  }
  return shape;
}

Projection project(const Report& report, const ProjectionRequest& asked) {
  require_worlds(asked);
  Projection projection{.run = report.id, .asked = asked};
  bool any_fitted = false;
  for (const Series& one : series_of(report, asked.filter, projection.left_out)) {
    const Series measured = measured_of(one), fitted = fitted_of(measured, asked.from);
    const std::string against = reason_against(fitted);
    if (against.empty()) {
      projection.series.push_back(project_series(report, fitted, cores_of(report), asked, projection.left_out));
      if (!asked.network) compare_with_measured(projection.series.back(), measured, fitted);
      if (projection.series.back().worlds.empty()) projection.series.pop_back();
      any_fitted = true;
    } else {
      projection.left_out.push_back(one[0]->spec.id + ": " + against);
    }
  }
  if (!projection.series.empty()) return projection;
  std::string text = any_fitted ? "nothing to project" : "nothing to project from";
  if (projection.left_out.empty())
    text += asked.filter.empty() ? ": the run contains only baselines"
                                 : ": no case matches --filter '" + asked.filter + "'";
  else
    text += ": " + projection.left_out[0];
  if (projection.left_out.size() > 1)
    text += " (and " + std::to_string(projection.left_out.size() - 1) + " more left out)";
  throw UsageError(
      text + (any_fitted ? "" : ". Example of a suitable run: " + shell_command("run --strategy ddp --cpus 1,2,3")));
}

}  // namespace dpbench
