#include "harness/report/profile.h"

#include "harness/report/fields.h"

namespace dpbench {
namespace {

Json to_json(const CollectiveRecord& one) {
  return {{"op", one.op},
          {"phase", one.phase},
          {"bytes", one.bytes},
          {"start_ns", or_null(one.start_ns)},
          {"end_ns", or_null(one.end_ns)}};
}

CollectiveRecord collective_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  return {.op = fields.get<std::string>("op"),
          .phase = fields.get_or<std::string>("phase", ""),
          .bytes = fields.get<int64_t>("bytes"),
          .start_ns = fields.maybe<double>("start_ns"),
          .end_ns = fields.maybe<double>("end_ns")};
}

}  // namespace

Json to_json(const Profile& profile) {
  Json collectives = Json::array();
  for (const CollectiveRecord& one : profile.collectives) collectives.push_back(to_json(one));
  return {{"steps", profile.steps},
          {"step_ns", profile.step_ns},
          {"communication_ns", or_null(profile.communication_ns)},
          {"exposed_ns", or_null(profile.exposed_ns)},
          {"hidden_ns", or_null(profile.hidden_ns)},
          {"waiting_ns", or_null(profile.waiting_ns)},
          {"collectives_per_step", profile.collectives_per_step},
          {"collective_bytes_per_step", profile.collective_bytes_per_step},
          {"collectives", std::move(collectives)},
          {"strategy_figures", profile.strategy_figures},
          {"flop", or_null(profile.flop)}};
}

Profile profile_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  Profile profile{.steps = fields.get<int64_t>("steps"),
                  .step_ns = fields.get<double>("step_ns"),
                  .collectives_per_step = fields.get_or("collectives_per_step", 0.0),
                  .collective_bytes_per_step = fields.get_or("collective_bytes_per_step", 0.0),
                  .communication_ns = fields.maybe<double>("communication_ns"),
                  .exposed_ns = fields.maybe<double>("exposed_ns"),
                  .hidden_ns = fields.maybe<double>("hidden_ns"),
                  .waiting_ns = fields.maybe<double>("waiting_ns"),
                  .flop = fields.maybe<int64_t>("flop")};
  fields.each("collectives", [&](const Json& one, const std::string& at) {
    profile.collectives.push_back(collective_from_json(one, at));
  });
  fields.each_member("strategy_figures", [&](const std::string& name, const Json& list, const std::string& at) {
    if (!list.is_array()) throw UsageError(at + " is not an array");
    for (const Json& value : list) profile.strategy_figures[name].push_back(Fields::read<double>(value, at));
  });
  return profile;
}

Json to_json(const Peak& peak) {
  return {{"gemm_flop_per_s", peak.gemm_flop_per_s}, {"triad_bytes_per_s", peak.triad_bytes_per_s}};
}

Peak peak_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  return {.gemm_flop_per_s = fields.get<double>("gemm_flop_per_s"),
          .triad_bytes_per_s = fields.get<double>("triad_bytes_per_s")};
}

Json to_json(const GpuCounters& c) {
  return {{"pci_bus", c.pci_bus},
          {"readings", c.readings},
          {"mean_power_w", or_null(c.mean_power_w)},
          {"most_power_w", or_null(c.most_power_w)},
          {"mean_sm_clock_mhz", or_null(c.mean_sm_clock_mhz)},
          {"least_sm_clock_mhz", or_null(c.least_sm_clock_mhz)},
          {"least_memory_clock_mhz", or_null(c.least_memory_clock_mhz)},
          {"most_temperature_c", or_null(c.most_temperature_c)},
          {"throttled_readings", c.throttled_readings},
          {"throttle_reasons", c.throttle_reasons}};
}

GpuCounters gpu_counters_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  return {.pci_bus = fields.get<std::string>("pci_bus"),
          .readings = fields.get<int64_t>("readings"),
          .mean_power_w = fields.maybe<double>("mean_power_w"),
          .most_power_w = fields.maybe<double>("most_power_w"),
          .mean_sm_clock_mhz = fields.maybe<double>("mean_sm_clock_mhz"),
          .least_sm_clock_mhz = fields.maybe<int64_t>("least_sm_clock_mhz"),
          .least_memory_clock_mhz = fields.maybe<int64_t>("least_memory_clock_mhz"),
          .most_temperature_c = fields.maybe<int64_t>("most_temperature_c"),
          .throttled_readings = fields.get<int64_t>("throttled_readings"),
          .throttle_reasons = list_of<std::string>(fields, "throttle_reasons")};
}

}  // namespace dpbench
