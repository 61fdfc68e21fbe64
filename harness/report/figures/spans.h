// Arithmetic on time spans: total communication, its overlap with computation, and waiting for other ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Span {
  int64_t from = 0, until = 0;
};
using Spans = std::vector<Span>;

// Sorts the spans, merges overlapping ones and drops empty ones.
Spans merged(Spans spans);
int64_t length(const Spans& spans);            // of the union
Spans common(const Spans& a, const Spans& b);  // intersection

// A collective as one rank sees it.
struct EnteredCollective {
  Span span;                 // begins when this rank enters it
  int64_t last_entered = 0;  // when the last rank entered it
};

struct Communication {
  int64_t total_ns = 0;    // at least one collective was in progress
  int64_t exposed_ns = 0;  // part of total_ns in which this rank did nothing else
  int64_t hidden_ns = 0;   // total_ns - exposed_ns
  int64_t waiting_ns = 0;  // part of exposed_ns in which another rank had not yet entered the collective
};
// blocked: spans in which the strategy did nothing but communicate.
Communication communication_of(const std::vector<EnteredCollective>& collectives, const Spans& blocked);

}  // namespace dpbench
