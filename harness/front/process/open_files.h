// The limit on open files (ulimit -n) that this process and its ranks live under.
#pragma once

namespace dpbench {

// Throws UsageError where it is below what a group of so many ranks needs; prepare_process() has raised it as far as
// it goes.
void require_open_files(int ranks);

}  // namespace dpbench
