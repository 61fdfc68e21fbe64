// Measures the rates that limit collectives, without their backends: the rate at which ranks copy memory, and the rates
// of the links between hosts and between GPUs. Tables print each measured bandwidth as a share of these rates.
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

// Sends one message and returns its number of wrong elements on this rank.
double wrong_elements(Team& team, const RankPair& pair);

// Returns the mean time of a round trip: a message of `bytes` bytes and a reply of 4 B. All ranks get the same result.
// The ranks outside the pair wait. Every rank of the team must call this function.
double seconds_of_round_trip(Team& team, const RankPair& pair, int64_t bytes);

// Return the rate in GB/s of a link, measured with 16 MiB: between hosts of one TCP connection, between two GPUs of a
// host of a copy. link_gb_s() measures the link between two ranks, slowest_link_gb_s() all links from a rank of the
// first `world` ranks to the next rank, once per world. They return 0 if there is no link or it cannot be measured.
// Every rank of the team must call these functions.
double link_gb_s(Team& team, int from, int to);
double slowest_link_gb_s(Team& team, int world);

}  // namespace dpbench::micro
