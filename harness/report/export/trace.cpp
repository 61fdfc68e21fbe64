#include "harness/report/export/trace.h"

#include <map>

#include "harness/report/record/fields.h"

namespace dpbench {
namespace {

constexpr int64_t most_rows = 1000;          // of one rank: itself and its GPUs
constexpr int64_t flow_ids = 1'000'000'000;  // arrows' numbers must differ between ranks

// Kineto counts GPUs as processes 0, 1, ..; the other number is the rank's own process.
class RankRows {
 public:
  explicit RankRows(int rank) : rank_(rank) {}
  int64_t row(int64_t pid, bool device) {
    if (!device) return rank_ * most_rows;
    const int64_t row = rank_ * most_rows + 1 + pid % (most_rows - 1);
    devices_[row] = pid;
    return row;
  }
  void name_all(Json& events) const {
    const std::string name = "rank " + std::to_string(rank_);
    name_one(events, rank_ * most_rows, name);
    for (const auto& [row, device] : devices_) name_one(events, row, name + ", GPU " + std::to_string(device));
  }

 private:
  static void name_one(Json& events, int64_t row, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", row}, {"tid", 0}, {"args", {{"name", name}}}});
    events.push_back(
        {{"ph", "M"}, {"name", "process_sort_index"}, {"pid", row}, {"tid", 0}, {"args", {{"sort_index", row}}}});
  }

  int64_t rank_;
  std::map<int64_t, int64_t> devices_;
};

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

Json merged_trace(const std::vector<Json>& ranks) {
  Json events = Json::array();
  const auto base_of = [](const Json& trace) { return trace.value("baseTimeNanoseconds", int64_t{0}); };
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankRows rows(static_cast<int>(i));
    const double later_us = static_cast<double>(base_of(ranks[i]) - base_of(ranks[0])) * 1e-3;
    Fields(ranks[i], "trace of rank " + std::to_string(i))
        .each("traceEvents", [&](const Json& event, const std::string&) {
          // Rows get names of ours; Kineto's own spans ("Spans", "Traces") are no process.
          if (!event.contains("pid") || !event["pid"].is_number_integer()) return;
          const bool process_meta = event.value("ph", "") == "M" && event.value("name", "") != "thread_name";
          if (process_meta) return;
          Json mine = event;
          mine["pid"] = rows.row(event["pid"].get<int64_t>(), on_device(event));
          if (mine.contains("ts") && mine["ts"].is_number()) mine["ts"] = mine["ts"].get<double>() + later_us;
          if (mine.contains("id") && mine["id"].is_number_integer())
            mine["id"] = mine["id"].get<int64_t>() + static_cast<int64_t>(i) * flow_ids;
          events.push_back(std::move(mine));
        });
    rows.name_all(events);
  }
  Json merged = {{"schemaVersion", 1}, {"displayTimeUnit", "ms"}};
  if (!ranks.empty() && base_of(ranks[0]) > 0) merged["baseTimeNanoseconds"] = base_of(ranks[0]);
  merged["traceEvents"] = std::move(events);
  return merged;
}

}  // namespace dpbench
