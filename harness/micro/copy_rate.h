// The ceiling that tables print beside a bandwidth: the rate at which ranks copy memory.
#pragma once

#include <cstdint>

#include "harness/micro/team.h"

namespace dpbench::micro {

// Returns the rate in GB/s at which the members, all at once, each copy this number of bytes on their device. Every
// rank of the team must call it.
double copy_gb_s(Team& team, bool member, int members, int64_t bytes);

}  // namespace dpbench::micro
