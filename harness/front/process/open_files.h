// Checks the limit on open files (ulimit -n) of this process and its ranks.
#pragma once

namespace dpbench {

// Throws UsageError if the limit is too low for a group of `ranks` ranks. prepare_process() must have raised the soft
// limit before.
void require_open_files(int ranks);

}  // namespace dpbench
