// Checks the limit on open files (ulimit -n) of this process and its ranks.
#pragma once

namespace dpbench {

// Throws UsageError if the limit on open files is too low for a group of `ranks` ranks. Call prepare_process() first,
// which raises the soft limit.
void require_open_files(int ranks);

}  // namespace dpbench
