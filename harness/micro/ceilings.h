// Measures the rates that limit collectives: the rate at which ranks copy memory, and the rate at which a rank sends to
// another. Tables print each measured bandwidth as a share of these rates.
#pragma once

#include <cstdint>
#include <string>

#include "harness/micro/team.h"

namespace dpbench::micro {

// Returns the mean rate in GB/s at which `members` ranks, all at once, copy `bytes` bytes on their devices. member:
// true if this rank copies. Every rank of the team must call this function.
double copy_gb_s(Team& team, bool member, int members, int64_t bytes);

inline constexpr int64_t least_message = 4, most_message = 16 << 20;  // smallest and largest message, in bytes

// A sender, a receiver and the size of the messages between them.
struct RankPair {
  std::string backend;
  int world, from, to;
  int64_t bytes;

  bool has(int rank) const { return rank == from || rank == to; }
};

// True if a message between the ranks crosses a link of the machine: they are on different hosts or use GPUs.
bool has_link(const Team& team, const RankPair& pair);

// Sends one message and returns its number of wrong elements on this rank.
double wrong_elements(Team& team, const RankPair& pair);

// Returns the mean time of a round trip: a message of `bytes` bytes and a reply of 4 B. All ranks get the same result.
// The ranks outside the pair wait. Every rank of the team must call this function.
double seconds_of_round_trip(Team& team, const RankPair& pair, int64_t bytes);

// Returns the rate in GB/s of the slowest link in the ring of the first `world` ranks: each rank in turn sends messages
// of 16 MiB to the next. Returns 0 if no rank of the ring has a link to the next, or the backend cannot send. Measures
// once per backend and world. Every rank of the team must call this function.
double link_gb_s(Team& team, const std::string& backend, int world);

}  // namespace dpbench::micro
