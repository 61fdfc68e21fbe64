// Decides if the replicas of a block had the cores that they need. A block without them has no speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Share of a block's time above which cores that were taken away disturb the block.
inline constexpr double most_lost_share = 0.05;

// Returns the largest share of a block's time that a rank lost to others: a thread waited for a core while its process
// used less than the cores of its replicas. Threads of a process that uses all its cores wait for each other only.
// Returns 0 if the kernel does not tell. `ranks` holds the records of one block.
double lost_share(const CaseSpec& spec, const std::vector<RankRecord>& ranks);

// True if the case's replicas have more threads than the machine has cores, so that they take turns by themselves.
bool crowded(const CaseSpec& spec, int cores);

// Load by others, in cores, from which it counts: a quarter of a core, or 5 % of a large machine. Lower loads come from
// daemons and from the resolution of the kernel's clocks.
double least_load(int cores);
// True if the load by others took cores that the case's replicas need.
bool disturbs(const OtherLoad& load, const CaseSpec& spec, int cores);

// Number of cores that the run's ranks shared, over all hosts; 0 if unknown.
int cores_of(const Report& report);

// Returns one line for a table's head, such as "other programs took 1.0 to 1.5 of 2 cores in 25 of 33 cases"; empty if
// nothing was disturbed.
std::string disturbance_line(const Report& report);
// Returns the highest load by others in the case's launches; nullopt if it was not measured.
std::optional<double> most_load(const CaseRecord& record, double OtherLoad::* of);
int disturbed_blocks(const CaseRecord& record);
// True if others loaded the cores in one of the case's launches.
bool loaded(const Report& report, const CaseRecord& record);

}  // namespace dpbench
