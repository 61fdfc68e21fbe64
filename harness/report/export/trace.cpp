#include "harness/report/export/trace.h"

#include <algorithm>
#include <map>

#include "harness/report/record/fields.h"

namespace dpbench {
namespace {

// Number of the first trace row for collectives, above all thread ids.
constexpr int64_t first_collectives_row = 1'000'000'000;
constexpr int64_t flow_ids_per_rank = 1'000'000'000;  // offset that keeps ids of flow arrows distinct between ranks

constexpr const char* row_name = "thread_name";  // name of the trace events that give a row its name

// Assigns rows of the trace viewer to one rank's events: a row for its process and a row for each GPU. In Kineto's
// events, the pid field holds the GPU's number for work on a GPU, else a process id.
class RankRows {
 public:
  explicit RankRows(int rank) : rank_(rank) {}
  int64_t row(int64_t pid, bool device) {
    if (!device) return rank_ * rows_per_rank;
    const int64_t row = rank_ * rows_per_rank + 1 + pid % (rows_per_rank - 1);
    devices_[row] = pid;
    return row;
  }
  void name_all(Json& events) const {
    const std::string name = "rank " + std::to_string(rank_);
    name_one(events, rank_ * rows_per_rank, name);
    for (const auto& [row, device] : devices_) name_one(events, row, name + ", GPU " + std::to_string(device));
  }

 private:
  static void name_one(Json& events, int64_t row, const std::string& name) {
    events.push_back(
        {{"ph", metadata_event}, {"name", "process_name"}, {"pid", row}, {"tid", 0}, {"args", {{"name", name}}}});
    events.push_back({{"ph", metadata_event},
                      {"name", "process_sort_index"},
                      {"pid", row},
                      {"tid", 0},
                      {"args", {{"sort_index", row}}}});
  }

  int64_t rank_;
  std::map<int64_t, int64_t> devices_;
};

int64_t base_of(const Json& trace) { return trace.value("baseTimeNanoseconds", int64_t{0}); }

bool on_device(const Json& event) {
  const std::string category = event.value("cat", "");
  return category == "kernel" || category.starts_with("gpu_") ||
         (event.contains("args") && event["args"].contains("stream"));
}

}  // namespace

std::string trace_stem(const std::string& case_id) {
  std::string stem;
  for (const char c : case_id) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '_' || c == '.' || c == '=';
    stem += plain ? c : '_';
  }
  return stem.substr(0, 200);
}

void SpanRows::add(const std::string& category, const std::string& span, double from_us, double until_us, Json args) {
  const auto free = std::ranges::find_if(ends_, [&](double end) { return end <= from_us; });
  const int64_t row = first_row_ + (free - ends_.begin());
  if (free == ends_.end()) {
    events_.push_back(
        {{"ph", metadata_event}, {"name", row_name}, {"pid", process_id_}, {"tid", row}, {"args", {{"name", name_}}}});
    ends_.push_back(until_us);
  } else {
    *free = until_us;
  }
  events_.push_back({{"ph", span_event},
                     {"cat", category},
                     {"name", span},
                     {"pid", process_id_},
                     {"tid", row},
                     {"ts", from_us},
                     {"dur", until_us - from_us},
                     {"args", std::move(args)}});
}

void add_collectives(Json& trace, int64_t process_id, const std::vector<TracedCollective>& collectives) {
  const int64_t base = base_of(trace);
  SpanRows rows(trace["traceEvents"], process_id, first_collectives_row, "collectives in progress");
  for (const TracedCollective& one : collectives)
    rows.add("collective", one.op, static_cast<double>(one.from_ns - base) * 1e-3,
             static_cast<double>(one.until_ns - base) * 1e-3, {{"axis", one.axis}, {"bytes", one.bytes}});
}

Json merged_trace(const std::vector<Json>& ranks) {
  Json events = Json::array();
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankRows rows(static_cast<int>(i));
    const double offset_us = static_cast<double>(base_of(ranks[i]) - base_of(ranks[0])) * 1e-3;
    Fields(ranks[i], "trace of rank " + std::to_string(i))
        .each("traceEvents", [&](const Json& event, const std::string&) {
          // Skip Kineto's process names, because the merged trace names each rank itself, and Kineto's own spans, which
          // have the text "Spans" as pid.
          if (!event.contains("pid") || !event["pid"].is_number_integer()) return;
          const bool process_meta = event.value("ph", "") == metadata_event && event.value("name", "") != row_name;
          if (process_meta) return;
          Json moved = event;
          moved["pid"] = rows.row(event["pid"].get<int64_t>(), on_device(event));
          if (moved.contains("ts") && moved["ts"].is_number()) moved["ts"] = moved["ts"].get<double>() + offset_us;
          if (moved.contains("id") && moved["id"].is_number_integer())
            moved["id"] = moved["id"].get<int64_t>() + static_cast<int64_t>(i) * flow_ids_per_rank;
          events.push_back(std::move(moved));
        });
    rows.name_all(events);
  }
  Json merged = {{"schemaVersion", 1}, {"displayTimeUnit", "ms"}};
  if (!ranks.empty() && base_of(ranks[0]) > 0) merged["baseTimeNanoseconds"] = base_of(ranks[0]);
  merged["traceEvents"] = std::move(events);
  return merged;
}

}  // namespace dpbench
