// Formats the figures in the sentences of a run's answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/report/answer/members.h"

namespace dpbench {

std::string percent_text(double share);                     // returns e.g. "7 %"; below 2 %, e.g. "1.4 %"
std::string range_text_of(double low, double high);         // returns two shares as "3 to 11 %"
std::string listed(const std::vector<std::string>& words);  // returns e.g. "a, b and c"
std::string mebibytes_text(int64_t bytes);                  // returns e.g. "3.4 MiB"
std::string launches_text(int launches);                    // returns e.g. "1 launch" or "5 launches"
// Returns a case's speed-up, with its interval if known: "1.66x (1.61 to 1.71)". Returns the throughput if there is no
// speed-up, or if the speed-up has an interval but the case's group is not ranked by speed-ups (`paired` is false). For
// the reference of the speed-ups, returns "the reference (158000 samples/s)".
std::string speed_number(const Report& report, const CaseRecord& record, bool paired);
// Returns a case's speed with the name of the reference after a speed-up: "1.66x (1.61 to 1.71) of one device".
std::string speed_text(const Report& report, const CaseRecord& record, bool paired);
// Returns how much longer a case takes: "7 % more time (3 to 11 %)", from 2x on "3.1x the time (2.9 to 3.3x)".
std::string longer_text(const Estimate& ratio);

}  // namespace dpbench
