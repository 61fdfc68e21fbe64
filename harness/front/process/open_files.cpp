#include "harness/front/process/open_files.h"

#include <sys/resource.h>

#include <string>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Ours for each rank are a socket and a pidfd, of two groups at once in a duel; a rank's for each other one are a
// connection or a pidfd. The rest is for libraries and reports.
constexpr rlim_t files_per_rank = 4, other_files = 64;

}  // namespace

void require_open_files(int ranks) {
  const rlim_t needed = other_files + files_per_rank * static_cast<rlim_t>(ranks);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw UsageError(std::to_string(ranks) + " ranks need " + std::to_string(needed) +
                   " open files, and this process may have " + std::to_string(limit.rlim_cur) +
                   "; raise the hard limit (ulimit -Hn), or ask for fewer ranks");
}

}  // namespace dpbench
