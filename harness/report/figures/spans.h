// Arithmetic on time spans: computes total communication, its overlap with computation, and the time spent waiting for
// other ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Span {
  int64_t from = 0, until = 0;
};
using Spans = std::vector<Span>;

// Returns the spans sorted, with overlapping spans merged and empty ones dropped.
Spans merged(Spans spans);
int64_t length(const Spans& spans);            // length of the union of the spans; overlaps count once
Spans common(const Spans& a, const Spans& b);  // time that lies in both a span of a and a span of b

// One collective (such as an allreduce) in the timing of one rank.
struct EnteredCollective {
  Span span;                 // time from this rank's call to the end of the collective
  int64_t last_entered = 0;  // time at which the last rank called the collective
};

struct Communication {
  int64_t total_ns = 0;    // time in which at least one collective was in progress
  int64_t exposed_ns = 0;  // communication time in which this rank did nothing else
  int64_t hidden_ns = 0;   // communication time that overlapped with computation
  // Communication time without computation in which another rank had not yet called the collective.
  int64_t waiting_ns = 0;
};
// Returns a rank's communication times. blocked: the time spans in which the strategy did nothing but communicate.
Communication communication_of(const std::vector<EnteredCollective>& collectives, const Spans& blocked);

}  // namespace dpbench
