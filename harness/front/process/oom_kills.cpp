#include "harness/front/process/oom_kills.h"

#include <fstream>

namespace dpbench {
namespace fs = std::filesystem;
namespace {

// A memory limit of at least this value counts as no limit: cgroup v1 reports a huge number if there is none.
constexpr int64_t no_limit = int64_t{1} << 60;

struct Version {
  const char *mount, *counter, *limit;
};
constexpr Version first_version = {"sys/fs/cgroup/memory", "memory.oom_control", "memory.limit_in_bytes"},
                  second_version = {"sys/fs/cgroup", "memory.events", "memory.max"};

// Returns the path of the file that counts the out-of-memory kills of control group `group` or of its closest ancestor;
// empty if there is none. In a container, /proc can name a group that is not visible under the mount.
fs::path counter_of(const fs::path& mount, fs::path group, const char* name) {
  std::error_code ignored;
  for (;; group = group.parent_path()) {
    const fs::path below = group.relative_path();
    fs::path found = (below.empty() ? mount : mount / below) / name;
    if (fs::exists(found, ignored)) return found;
    if (below.empty()) return {};
  }
}

// Returns the memory limit of the control group `group` or its closest ancestor that has a limit.
int64_t limit_of(fs::path group, const char* name) {
  for (; !group.filename().empty(); group = group.parent_path()) {
    std::ifstream file(group / name);
    if (!file) break;
    int64_t limit = 0;
    if (file >> limit && limit < no_limit) return limit;  // the file has "max" instead of a number if there is no limit
  }
  return no_limit;
}

}  // namespace

// Finds the process's control group in /proc/PID/cgroup. The lines of that file are like "4:memory:/a/b" in v1 and
// "0::/a/b" in v2.
OomKills::OomKills(pid_t pid, const fs::path& root) {
  std::ifstream file(root / "proc" / std::to_string(pid) / "cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t one = line.find(':'), two = line.find(':', one + 1);
    if (two == std::string::npos) continue;
    const std::string controllers = line.substr(one + 1, two - one - 1);
    const bool first = ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (!first && !controllers.empty()) continue;
    const Version& version = first ? first_version : second_version;
    const fs::path found = counter_of(root / version.mount, line.substr(two + 1), version.counter);
    if (found.empty()) continue;
    counter_ = found;
    limit_ = version.limit;
    if (first) break;  // if cgroup v1 and v2 are both mounted, v1 controls the memory
  }
  reset();
}

void OomKills::reset() { before_ = count(); }

int64_t OomKills::count() const {
  std::ifstream file(counter_);
  int64_t value = 0;
  for (std::string key; file >> key >> value;)
    if (key == "oom_kill") return value;
  return 0;
}

std::string OomKills::reason() const {
  if (count() <= before_) return "";
  const int64_t limit = limit_of(counter_.parent_path(), limit_);
  if (limit == no_limit) return "killed by the kernel: no memory left";
  return "killed by the control group's limit of " + std::to_string(limit) + " bytes";
}

}  // namespace dpbench
