// Arithmetic on spans of time: what was under way, what hid behind what, who waited for whom.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Span {
  int64_t from = 0, until = 0;
};
using Spans = std::vector<Span>;

// In order, without overlaps and empty ones.
Spans merged(Spans spans);
int64_t length(const Spans& spans);  // of what they cover together
Spans common(const Spans& a, const Spans& b);

// A collective on one rank: under way from the moment this rank entered it.
struct Entered {
  Span span;
  int64_t last_entered = 0;  // when the last rank entered it
};

struct Communication {
  int64_t total_ns = 0;    // at least one collective was under way
  int64_t exposed_ns = 0;  // this rank did nothing else meanwhile
  int64_t hidden_ns = 0;   // total without what was exposed
  int64_t waiting_ns = 0;  // exposed, and a rank had not yet entered the collective under way
};
// blocked: when the strategy did nothing but communicate.
Communication communication_of(const std::vector<Entered>& collectives, const Spans& blocked);

}  // namespace dpbench
