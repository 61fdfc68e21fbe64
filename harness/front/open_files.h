// The limit on open files (ulimit -n) that this process and its ranks live under.
#pragma once

namespace dpbench {

// Raises it, as far as the system lets us, to what a group of so many ranks needs. Throws UsageError where that is too
// little.
void allow_open_files(int ranks);

}  // namespace dpbench
