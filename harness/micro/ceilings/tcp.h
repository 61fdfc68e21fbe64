// Measures the rate of the network between two ranks with plain TCP, without a backend.
#pragma once

#include <cstdint>

#include "harness/micro/team.h"

namespace dpbench::micro {

// Returns the mean time of a round trip over one TCP connection: `bytes` bytes from rank `from` to rank `to`, and a
// reply of 4 B. The connection uses the addresses that Gloo uses. Returns 0 if the ranks cannot connect. Every rank of
// the team must call this function.
double seconds_of_tcp_round_trip(Team& team, int from, int to, int64_t bytes);

}  // namespace dpbench::micro
