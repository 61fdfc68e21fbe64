#include "harness/report/record/protocol.h"

#include <algorithm>
#include <cstring>

#include "harness/report/record/codec.h"
#include "harness/report/record/training.h"

namespace dpbench {

Json to_json(const CaseSpec& spec) { return write_value(spec); }
Json to_json(const Sampling& sampling) { return write_value(sampling); }
Json to_json(const RankRecord& record) { return write_value(record); }
Json to_json(const CheckRow& row) { return write_value(row); }
Json to_json(const TrainOptions& options) { return write_value(options); }
Json to_json(const TrainingRecord& record) { return write_value(record); }

CaseSpec case_from_json(const Json& json) {
  const auto spec = read_value<CaseSpec>(json, "case");
  if (spec.world < 1 || spec.processes < 1 || spec.batch < 1)
    throw UsageError("case " + spec.id + ": world, processes and batch must be at least 1");
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

void store_text(CallSlot& slot, std::string_view text) {
  std::array<uint64_t, CallSlot::words> words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof words));
  for (size_t i = 0; i < words.size(); ++i) slot.text[i].store(words[i], std::memory_order_release);
}

std::string load_text(const CallSlot& slot) {
  std::array<uint64_t, CallSlot::words> words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = slot.text[i].load(std::memory_order_acquire);
  const char* text = reinterpret_cast<const char*>(words.data());
  return {text, ::strnlen(text, sizeof words)};
}

}  // namespace dpbench
