#include "harness/front/process/open_files.h"

#include <sys/resource.h>

#include <string>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

// This process holds a socket and a pidfd for each rank. A duel runs two groups of ranks at once, so it needs twice as
// many. A rank needs at most as many for its peers. The other files are libraries and reports.
constexpr rlim_t files_per_rank = 4, other_files = 64;

}  // namespace

void require_open_files(int ranks) {
  const rlim_t needed = other_files + files_per_rank * static_cast<rlim_t>(ranks);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw UsageError(std::to_string(ranks) + " ranks need " + std::to_string(needed) +
                   " open files; this process is limited to " + std::to_string(limit.rlim_cur) +
                   ". Raise the hard limit (ulimit -Hn), or use fewer ranks");
}

}  // namespace dpbench
