#include "harness/report/record/protocol.h"

#include <algorithm>
#include <cstring>

#include "harness/report/record/codec.h"
#include "harness/report/record/training.h"

namespace dpbench {

Json to_json(const ProcessSettings& settings) { return write_value(settings); }
Json to_json(const CaseSpec& spec) { return write_value(spec); }
Json to_json(const Sampling& sampling) { return write_value(sampling); }
Json to_json(const RankRecord& record) { return write_value(record); }
Json to_json(const CheckRow& row) { return write_value(row); }
Json to_json(const TrainOptions& options) { return write_value(options); }
Json to_json(const TrainingRecord& record) { return write_value(record); }

ProcessSettings process_settings_from_json(const Json& json, const std::string& path) {
  const auto settings = read_value<ProcessSettings>(json, path);
  if (settings.processes < 1 || settings.threads < 1)
    throw UsageError(path + ": processes and threads must be at least 1");
  return settings;
}

CaseSpec case_from_json(const Json& json) {
  const auto spec = read_value<CaseSpec>(json, "case");
  if (spec.world < 1 || spec.processes < 1 || spec.batch < 1)
    throw UsageError("case " + spec.id + ": world, processes and batch must be at least 1");
  const MeshShape mesh = parse_mesh(spec.mesh);
  if (spec.mesh != text_of(mesh) || (!mesh.empty() && (is_plain(mesh) || ranks_of(mesh) != spec.world)))
    throw UsageError("case " + spec.id + ": the mesh '" + spec.mesh + "' does not fit a world of " +
                     std::to_string(spec.world));
  return spec;
}

void require_times(const RankRecord& record) {
  if (record.samples_ns.empty()) return;
  if (record.steps_per_sample < 1) throw UsageError("record.steps_per_sample is below 1");
  for (const int64_t sample : record.samples_ns)
    if (sample < 1)
      throw UsageError("record.samples_ns holds " + std::to_string(sample) + "; a time must be at least 1 ns");
}

RankRecord rank_record_from_json(const Json& json) {
  auto record = read_value<RankRecord>(json, "record");
  require_times(record);
  return record;
}

Sampling sampling_from_json(const Json& json) { return read_value<Sampling>(json, "sampling"); }
CheckRow check_row_from_json(const Json& json) { return read_value<CheckRow>(json, "check"); }
TrainOptions train_options_from_json(const Json& json) { return read_value<TrainOptions>(json, "train"); }
TrainingRecord training_record_from_json(const Json& json) { return read_value<TrainingRecord>(json, "training"); }

void store_text(std::span<std::atomic<uint64_t>> words, std::string_view text) {
  for (size_t i = 0, begin = 0; i < words.size(); ++i, begin += sizeof(uint64_t)) {
    uint64_t word = 0;
    if (begin < text.size()) std::memcpy(&word, text.data() + begin, std::min(text.size() - begin, sizeof word));
    words[i].store(word, std::memory_order_release);
  }
}

std::string load_text(std::span<const std::atomic<uint64_t>> words) {
  std::string text;
  for (const auto& stored : words) {
    const uint64_t word = stored.load(std::memory_order_acquire);
    text.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return text.substr(0, text.find('\0'));
}

}  // namespace dpbench
