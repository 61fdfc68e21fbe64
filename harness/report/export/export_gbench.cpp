#include <string>

#include "harness/report/export/export.h"
#include "harness/report/machine/environment.h"
#include "harness/report/record/find_run.h"

namespace dpbench {
namespace {

// Returns a case's benchmark name. The name begins with the strategy, backend and parameters as one word, so that
// `compare.py filters FILE '^dp/' '^ddp:shm/'` compares strategies within one file.
std::string benchmark_name(const CaseSpec& spec) {
  std::string name = spec.strategy;
  if (spec.backend != no_backend) name += ":" + spec.backend;
  for (const auto& [key, value] : spec.params) name += ":" + key + "=" + value;
  name += "/" + spec.workload + "/" + spec.device + ":" + std::to_string(spec.world) +
          "/global_batch:" + std::to_string(spec.global_batch()) + "/dtype:" + spec.dtype;
  if (spec.runtime != Runtime::torch) name += "/runtime:" + name_of(spec.runtime);
  return name + named_settings(spec, ':');
}

int64_t count_or(const Json& value, int64_t fallback) { return value.is_number() ? value.get<int64_t>() : fallback; }

Json context(const Report& report) {
  const Json usable = field_of(report.env, "/cpu/usable"), mhz = field_of(report.env, "/cpu/max_mhz");
  return {{"date", start_time(report.id)},   {"host_name", report.id},
          {"executable", "dpbench"},         {"num_cpus", count_or(usable, 1)},
          {"mhz_per_cpu", count_or(mhz, 0)}, {"cpu_scaling_enabled", !varying_governor(report.env).empty()},
          {"caches", Json::array()},         {"load_avg", Json::array()},
          {"library_build_type", "release"}, {"json_schema_version", 1}};
}

void add_launches(const CaseRecord& record, size_t family, Json& benchmarks) {
  const std::string name = benchmark_name(record.spec);
  for (size_t i = 0; i < record.launches.size(); ++i) {
    const auto steps = sample_step_ns(record.launches[i]);
    if (steps.empty()) continue;
    const double step_ns = median(steps);
    benchmarks.push_back(
        {{"name", name},
         {"family_index", family},
         {"per_family_instance_index", 0},
         {"run_name", name},
         {"run_type", "iteration"},
         {"repetitions", record.launches.size()},
         {"repetition_index", i},
         {"threads", record.spec.world},
         {"iterations", steps.size() * static_cast<size_t>(record.launches[i].ranks[0].steps_per_sample)},
         {"real_time", step_ns},
         {"cpu_time", step_ns},
         {"time_unit", "ns"},
         {"items_per_second", rows_per_step(record) / (step_ns * 1e-9)}});
  }
}

}  // namespace

std::string gbench_json(const Report& report) {
  Json benchmarks = Json::array();
  for (size_t i = 0; i < report.cases.size(); ++i)
    if (report.cases[i].status == CaseStatus::ok) add_launches(report.cases[i], i, benchmarks);
  return Json{{"context", context(report)}, {"benchmarks", std::move(benchmarks)}}.dump(2) + "\n";
}

}  // namespace dpbench
