// Decides if the replicas had the cores that they need during a timed block of steps. A block without them does not
// count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// True if the case's replicas together have more threads than the machine has cores, so that their threads take turns
// even on an idle machine. False on a GPU or if `cores` is 0 (unknown).
bool crowded(const CaseSpec& spec, int cores);

// True if a rank lost more than 5 % of a block's time to other programs: a thread waited for a core while its process
// used fewer cores than its replicas need. If the process used all of these cores, its threads waited only for each
// other. False if the case is crowded or the kernel reports no waiting times. `block` holds the ranks' records of one
// block.
bool starved(const CaseSpec& spec, const std::vector<RankRecord>& block, int cores);

// True if a rank lost more than 5 % of its profiled steps to other programs, by the same rule as for a block.
bool profile_starved(const CaseSpec& spec, const std::vector<RankRecord>& ranks, int cores);
// Marks the ranks' profiles as disturbed and removes the times of phases and communication, the list of collectives and
// the strategy's figures. Counts, such as the number of collectives, stay.
void drop_profile_times(std::vector<RankRecord>& ranks);

// True if other programs and a virtual machine's host together took less than 5 % of a core, too little to disturb most
// blocks. If replicas waited for a core nevertheless, they waited for each other, which is a cost of the strategy.
// False if the load is unknown.
bool quiet(const std::optional<OtherLoad>& load);

// Returns the smallest load of other programs, in cores, that counts as a disturbance: a quarter of a core or 5 % of
// the machine's cores, whichever is larger. Lower loads come from daemons and from the resolution of the kernel's
// clocks.
double least_load(int cores);
// True if a virtual machine's host took enough cores to count as a disturbance, or if other programs did and the
// replicas have more threads than the machine has cores. In other cases, other programs may run on free cores, so only
// the times that ranks wait for cores count (starved()).
bool disturbs(const OtherLoad& load, const CaseSpec& spec, int cores);

// Number of cores on which the run's ranks ran, summed over all hosts; 0 if unknown.
int cores_of(const Report& report);

// Returns one line for a table's head on disturbed cases and on cores taken by other programs or withheld by a virtual
// machine's host, such as "other programs took 1.0 to 1.5 of 2 cores in 25 of 33 cases"; empty if there were none.
std::string disturbance_line(const Report& report);
// Returns the highest load, in cores, over the case's launches; nullopt if it was not measured. of: the load of other
// programs or of a virtual machine's host.
std::optional<double> most_load(const CaseRecord& record, double OtherLoad::* of);
int disturbed_blocks(const CaseRecord& record);
// True if other programs, or a virtual machine's host, took enough cores to count as a disturbance in any launch of the
// case.
bool loaded(const Report& report, const CaseRecord& record);

}  // namespace dpbench
