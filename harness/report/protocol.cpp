#include "harness/report/protocol.h"

#include <algorithm>
#include <cstring>

#include "harness/report/fields.h"

namespace dpbench {
namespace {

template <class T>
std::map<std::string, T> map_of(const Fields& fields, const char* key) {
  std::map<std::string, T> values;
  fields.each_member(key, [&](const std::string& name, const Json& value, const std::string& path) {
    values[name] = Fields::read<T>(value, path);
  });
  return values;
}

}  // namespace

Json to_json(const CaseSpec& spec) {
  return {{"id", spec.id},
          {"strategy", spec.strategy},
          {"workload", spec.workload},
          {"device", spec.device},
          {"world", spec.world},
          {"processes", spec.processes},
          {"backend", spec.backend},
          {"scaling", spec.scaling},
          {"batch", spec.batch},
          {"dtype", spec.dtype},
          {"params", spec.params},
          {"scale", spec.scale},
          {"accumulate", spec.accumulate},
          {"clip_norm", or_null(spec.clip_norm)},
          {"seed", spec.seed},
          {"data_dir", spec.data_dir},
          {"threads", spec.threads},
          {"oversubscribe", spec.oversubscribe},
          {"baseline", spec.baseline}};
}

CaseSpec case_from_json(const Json& json) {
  const Fields fields(json, "case");
  CaseSpec spec;
  spec.id = fields.get<std::string>("id");
  spec.strategy = fields.get<std::string>("strategy");
  spec.workload = fields.get<std::string>("workload");
  spec.device = fields.get<std::string>("device");
  spec.world = fields.get<int>("world");
  spec.processes = fields.get<int>("processes");
  spec.backend = fields.get<std::string>("backend");
  spec.scaling = fields.get<std::string>("scaling");
  spec.batch = fields.get<int64_t>("batch");
  spec.dtype = fields.get<std::string>("dtype");
  spec.params = map_of<std::string>(fields, "params");
  spec.scale = fields.get_or("scale", spec.scale);
  spec.accumulate = fields.get_or("accumulate", spec.accumulate);
  spec.clip_norm = fields.maybe<double>("clip_norm");
  spec.seed = fields.get_or("seed", spec.seed);
  spec.data_dir = fields.get_or("data_dir", spec.data_dir);
  spec.threads = fields.get_or("threads", spec.threads);
  spec.oversubscribe = fields.get_or("oversubscribe", spec.oversubscribe);
  spec.baseline = fields.get_or("baseline", spec.baseline);
  if (spec.world < 1 || spec.processes < 1 || spec.batch < 1)
    throw UsageError("case " + spec.id + ": world, processes and batch are at least 1");
  return spec;
}

Json to_json(const Sampling& sampling) {
  return {{"warmup", sampling.warmup},
          {"samples", sampling.samples},
          {"steps", sampling.steps},
          {"min_sample_s", sampling.min_sample_s},
          {"max_time_s", sampling.max_time_s},
          {"measure_peak", sampling.measure_peak},
          {"trace_dir", sampling.trace_dir}};
}

Sampling sampling_from_json(const Json& json) {
  const Fields fields(json, "sampling");
  return {.warmup = fields.get<int64_t>("warmup"),
          .samples = fields.get<int>("samples"),
          .steps = fields.get<int64_t>("steps"),
          .min_sample_s = fields.get<double>("min_sample_s"),
          .max_time_s = fields.get<double>("max_time_s"),
          .measure_peak = fields.get_or("measure_peak", false),
          .trace_dir = fields.get_or<std::string>("trace_dir", "")};
}

Json to_json(const RankRecord& record) {
  Json gpus = Json::array();
  for (const GpuCounters& gpu : record.gpus) gpus.push_back(to_json(gpu));
  return {{"rank", record.rank},
          {"threads", record.threads},
          {"steps_per_sample", record.steps_per_sample},
          {"rows_per_step", record.rows_per_step},
          {"samples_ns", record.samples_ns},
          {"step_p50_ns", record.step_p50_ns},
          {"step_p90_ns", record.step_p90_ns},
          {"step_p99_ns", record.step_p99_ns},
          {"phases_ns", record.phases_ns},
          {"peak_rss_bytes", record.peak_rss_bytes},
          {"own_rss_bytes", record.own_rss_bytes},
          {"peak_device_bytes", record.peak_device_bytes},
          {"peak_device_reserved_bytes", record.peak_device_reserved_bytes},
          {"first_loss", record.first_loss},  // a loss that is not finite is written as null
          {"last_loss", record.last_loss},
          {"parameters_hash", record.parameters_hash},
          {"profile", record.profile ? to_json(*record.profile) : Json(nullptr)},
          {"peak", record.peak ? to_json(*record.peak) : Json(nullptr)},
          {"gpus", std::move(gpus)},
          {"warnings", record.warnings}};
}

RankRecord rank_record_from_json(const Json& json) {
  const Fields fields(json, "record");
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  RankRecord record;
  record.rank = fields.get<int>("rank");
  record.threads = fields.get_or("threads", record.threads);
  record.steps_per_sample = fields.get<int64_t>("steps_per_sample");
  record.rows_per_step = fields.get_or("rows_per_step", 0.0);
  record.samples_ns = list_of<int64_t>(fields, "samples_ns");
  record.step_p50_ns = fields.get_or<int64_t>("step_p50_ns", 0);
  record.step_p90_ns = fields.get_or<int64_t>("step_p90_ns", 0);
  record.step_p99_ns = fields.get_or<int64_t>("step_p99_ns", 0);
  record.phases_ns = map_of<double>(fields, "phases_ns");
  record.peak_rss_bytes = fields.get_or<int64_t>("peak_rss_bytes", 0);
  record.own_rss_bytes = fields.get_or<int64_t>("own_rss_bytes", 0);
  record.peak_device_bytes = fields.get_or<int64_t>("peak_device_bytes", 0);
  record.peak_device_reserved_bytes = fields.get_or<int64_t>("peak_device_reserved_bytes", 0);
  record.first_loss = fields.get_or("first_loss", unknown);
  record.last_loss = fields.get_or("last_loss", unknown);
  record.parameters_hash = fields.get_or<std::string>("parameters_hash", "");
  const auto given = [&](const char* key) {
    const Json* value = fields.find(key);
    return value && !value->is_null() ? value : nullptr;
  };
  if (const Json* profile = given("profile")) record.profile = profile_from_json(*profile, fields.path("profile"));
  if (const Json* peak = given("peak")) record.peak = peak_from_json(*peak, fields.path("peak"));
  fields.each("gpus",
              [&](const Json& gpu, const std::string& at) { record.gpus.push_back(gpu_counters_from_json(gpu, at)); });
  record.warnings = list_of<std::string>(fields, "warnings");
  if (record.samples_ns.empty()) return record;
  if (record.steps_per_sample < 1) throw UsageError("record.steps_per_sample is below 1");
  for (const int64_t sample : record.samples_ns)
    if (sample < 1) throw UsageError("record.samples_ns holds " + std::to_string(sample) + ": a time is at least 1 ns");
  return record;
}

Json to_json(const CheckRow& row) {
  return {{"name", row.name},
          {"status", row.status},
          {"compared", row.compared},
          {"error", or_null(row.error)},
          {"bound", or_null(row.bound)},
          {"detail", row.detail},
          {"likely", row.likely}};
}

CheckRow check_row_from_json(const Json& json) {
  const Fields fields(json, "check");
  return {.name = fields.get<std::string>("name"),
          .status = fields.get<std::string>("status"),
          .compared = fields.get_or<std::string>("compared", ""),
          .error = fields.maybe<double>("error"),
          .bound = fields.maybe<double>("bound"),
          .detail = fields.get_or<std::string>("detail", ""),
          .likely = fields.get_or<std::string>("likely", "")};
}

void put_text(CallSlot& slot, std::string_view text) {
  std::array<uint64_t, CallSlot::words> words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof words));
  for (size_t i = 0; i < words.size(); ++i) slot.text[i].store(words[i], std::memory_order_release);
}

std::string text_of(const CallSlot& slot) {
  std::array<uint64_t, CallSlot::words> words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = slot.text[i].load(std::memory_order_acquire);
  const char* text = reinterpret_cast<const char*>(words.data());
  return {text, ::strnlen(text, sizeof words)};
}

}  // namespace dpbench
