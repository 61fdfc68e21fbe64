// Merges the Kineto traces of all ranks into one trace file for Perfetto and chrome://tracing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

// Returns the common prefix of a case's trace file names. Rank 0's file name is this prefix plus ".rank0.json".
std::string trace_stem(const std::string& case_id);

// Kinds of trace events, in their field "ph": a span, and a name or property of a row.
inline constexpr const char *span_event = "X", *metadata_event = "M";

// In a merged trace, rank r has the process id r * rows_per_rank, and its GPUs have the ids above it.
inline constexpr int64_t rows_per_rank = 1000;

// Adds spans of a process to the events of a trace, in rows that share one name. Spans that overlap get different rows.
// Add spans in the order of their starts.
class SpanRows {
 public:
  // first_row: number of the first row, above the ids of the process's threads, which have rows of their own.
  SpanRows(Json& events, int64_t process_id, int64_t first_row, std::string name)
      : events_(events), process_id_(process_id), first_row_(first_row), name_(std::move(name)) {}

  // from_us, until_us: start and end on the clock of the trace's field "ts".
  void add(const std::string& category, const std::string& span, double from_us, double until_us, Json args);

 private:
  Json& events_;
  int64_t process_id_, first_row_;
  std::string name_;
  std::vector<double> ends_;  // end of each row's last span
};

// A collective of one rank, from its call to its end. Times are nanoseconds since 1970.
struct TracedCollective {
  std::string op, axis;
  int64_t bytes = 0, from_ns = 0, until_ns = 0;
};

// Adds collectives to the trace that Kineto wrote for a rank. The viewer shows them in rows of their own, so overlap
// with computation is visible. Collectives that are in progress at the same time get different rows.
void add_collectives(Json& trace, int64_t process_id, const std::vector<TracedCollective>& collectives);

// Merges the ranks' traces into one Chrome trace; ranks[i] is the trace that Kineto wrote for rank i. The viewer shows
// each rank as a process, followed by the rank's GPUs.
Json merged_trace(const std::vector<Json>& ranks);

}  // namespace dpbench
