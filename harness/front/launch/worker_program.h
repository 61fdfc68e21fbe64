// Locates dpbench-worker and loads its catalogue.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/plan/catalogue.h"

namespace dpbench {

// Returns $DPBENCH_WORKER, or the worker next to this program or in ../libexec/dpbench. Throws UsageError if there is
// none.
std::filesystem::path find_worker();

// Returns the worker of another build. `build` is its dpbench or dpbench-worker, its build or install directory, or its
// checkout. Throws UsageError with the paths tried.
std::filesystem::path worker_of_build(const std::string& build);

// Returns the absolute path of a plug-in. Throws UsageError unless `file` contains a '/' and is a regular file that no
// other user can change.
std::filesystem::path checked_plugin(const std::string& file);

// Starts the worker and queries its catalogue. This also proves that the worker finds its libraries; the CUDA libraries
// are loaded only if there is a GPU. Throws UsageError with the worker's output.
Catalogue query_catalogue(const std::filesystem::path& worker, const std::vector<std::string>& plugins);

// Reads catalogue.json next to the worker. Queries the worker instead if there are plug-ins, which only the worker can
// load, or if the file may be stale.
Catalogue load_catalogue(const std::filesystem::path& worker, const std::vector<std::string>& plugins);

}  // namespace dpbench
