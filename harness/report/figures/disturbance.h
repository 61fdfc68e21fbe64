// Decides if the replicas of a block had the cores that they need. A block without them has no speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// True if the case's replicas have more threads than the machine has cores, so that they take turns by themselves.
bool crowded(const CaseSpec& spec, int cores);

// True if a rank lost more than 5 % of a block's time to others: a thread waited for a core while its process used less
// than the cores of its replicas. Threads of a process that uses all its cores wait for each other only. False if the
// case is crowded or the kernel does not tell. `block` holds the ranks' records of one block.
bool starved(const CaseSpec& spec, const std::vector<RankRecord>& block, int cores);

// The same for the steps that the ranks profiled.
bool profile_starved(const CaseSpec& spec, const std::vector<RankRecord>& ranks, int cores);
// Marks the ranks' profiles as disturbed and removes their times; their counts stay.
void drop_profile_times(std::vector<RankRecord>& ranks);

// True if other programs used less than 5 % of a core, too little to disturb most blocks. Replicas that waited for a
// core then waited for each other's threads, which is a cost of their strategy. False if the load is unknown.
bool quiet(const std::optional<OtherLoad>& load);

// Returns the smallest load by others, in cores, that counts: a quarter of a core, or 5 % of a large machine. Lower
// loads come from daemons and from the resolution of the kernel's clocks.
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
