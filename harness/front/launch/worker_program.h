// Where dpbench-worker is, and what it says it can do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/plan/catalogue.h"

namespace dpbench {

// DPBENCH_WORKER, else beside this program, else ../libexec/dpbench. Throws UsageError where there is none.
std::filesystem::path find_worker();

// The worker of another build: its dpbench or dpbench-worker, or the directory it was built in, installed in or checked
// out in. Throws UsageError naming where it was looked for.
std::filesystem::path worker_of_build(const std::string& build);

// Absolute; refused unless it is a file named with a '/' that nobody else can change. Throws UsageError.
std::filesystem::path checked_plugin(const std::string& file);

// Starts the worker to ask it: proves that it finds its libraries, those of CUDA only where there is a GPU. Throws
// UsageError with what it said.
Catalogue asked_catalogue(const std::filesystem::path& worker, const std::vector<std::string>& plugins);

// catalogue.json beside the worker; with plug-ins the worker itself is asked, as only it can load them, and where the
// file may be out of date.
Catalogue load_catalogue(const std::filesystem::path& worker, const std::vector<std::string>& plugins);

}  // namespace dpbench
