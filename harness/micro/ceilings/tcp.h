// Measures the rate of the network between two ranks with plain TCP, without a backend.
#pragma once

#include <cstdint>

#include "harness/micro/team.h"

namespace dpbench::micro {

// Returns, on rank `from`, the mean time of a round trip over one TCP connection: `bytes` bytes from rank `from` to
// rank `to`, and a reply of 4 B; 0 on the other ranks, and if `to` cannot listen. The connection uses the addresses
// that Gloo uses. If it fails, both ranks throw within 20 s. Every rank of the team must call this function.
double seconds_of_tcp_round_trip(Team& team, int from, int to, int64_t bytes);

}  // namespace dpbench::micro
