// Measures the rate at which ranks copy memory. Tables print the share of this rate that each bandwidth reaches.
#pragma once

#include <cstdint>

#include "harness/micro/team.h"

namespace dpbench::micro {

// Returns the rate in GB/s at which each of `members` ranks copies this number of bytes on its device, while all of
// them copy at once. member: true on these ranks. Every rank of the team must call this function.
double copy_gb_s(Team& team, bool member, int members, int64_t bytes);

}  // namespace dpbench::micro
