#include "harness/front/process/scratch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

// Free space that /dev/shm must have for dpbench to use it. Containers often have only 64 MiB there, and a full
// /dev/shm kills ranks.
constexpr uint64_t wanted_bytes = 256u << 20;

constexpr char unfinished_prefix[] = ".new-";  // prefix of a new scratch directory's name until it is locked

std::string prefix() { return "dpbench-" + std::to_string(::getuid()) + "-"; }

bool is_named_like_ours(const std::string& name) {
  return name.starts_with(prefix()) || name.starts_with(unfinished_prefix + prefix());
}

Fd open_directory(const fs::path& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool lock_now(const Fd& directory) { return ::flock(directory.get(), LOCK_EX | LOCK_NB) == 0; }

bool has_room(const fs::path& parent) {
  struct statvfs space{};
  return ::access(parent.c_str(), W_OK | X_OK) == 0 && ::statvfs(parent.c_str(), &space) == 0 &&
         uint64_t{space.f_bavail} * space.f_frsize >= wanted_bytes;
}

fs::path chosen_parent(const std::vector<fs::path>& parents) {
  for (const auto& parent : parents)
    if (has_room(parent)) return parent;
  for (const auto& parent : parents)
    if (::access(parent.c_str(), W_OK | X_OK) == 0) return parent;
  throw UsageError("no writable directory for a run's private files. Set TMPDIR");
}

}  // namespace

std::vector<fs::path> Scratch::usual_parents() {
  std::vector<fs::path> parents = {"/dev/shm"};
  if (const char* chosen = std::getenv("TMPDIR"); chosen && *chosen) parents.emplace_back(chosen);
  parents.emplace_back("/tmp");
  return parents;
}

bool Scratch::is_private(const fs::path& path) {
  struct stat state{};
  return path.is_absolute() && path == path.lexically_normal() && path.filename().string().starts_with(prefix()) &&
         ::lstat(path.c_str(), &state) == 0 && S_ISDIR(state.st_mode) && state.st_uid == ::getuid() &&
         (state.st_mode & 07777) == 0700;
}

int Scratch::clean(const fs::path& parent) {
  int removed = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(parent, failed)) {
    if (!is_named_like_ours(entry.path().filename().string())) continue;
    const Fd directory = open_directory(entry.path());
    struct stat state{};
    if (!directory || ::fstat(directory.get(), &state) != 0 || state.st_uid != ::getuid() || !lock_now(directory))
      continue;
    if (fs::remove_all(entry.path(), failed) > 0 && !failed) ++removed;
  }
  return removed;
}

Scratch::Scratch(const std::vector<fs::path>& parents) {
  for (const auto& parent : parents) clean(parent);
  const fs::path parent = chosen_parent(parents);
  // Try again up to 1000 times: other runs that are starting may take each new directory for a leftover and remove it.
  for (int tries = 1000; !make_in(parent);)
    if (--tries == 0)
      throw UsageError("cannot keep a private directory " + path_.string() + ": " + std::strerror(errno) +
                       ". Set TMPDIR");
}

// Creates the scratch directory under a temporary name and renames it once it is locked. So a directory with a final
// name but no lock is a leftover. Returns false if another run removed the directory before it was locked.
bool Scratch::make_in(const fs::path& parent) {
  std::string fresh = (parent / (unfinished_prefix + prefix() + "XXXXXX")).string();
  if (!::mkdtemp(fresh.data()))
    throw UsageError("cannot create a private directory " + fresh + ": " + std::strerror(errno) + ". Set TMPDIR");
  path_ = parent / fs::path(fresh).filename().string().substr(std::strlen(unfinished_prefix));
  lock_ = open_directory(fresh);
  if (lock_ && lock_now(lock_) && ::rename(fresh.c_str(), path_.c_str()) == 0) return true;
  const int why = errno;
  std::error_code ignored;
  fs::remove(fresh, ignored);
  errno = why;
  return false;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Scratch::forget_group(const std::string& group) const {
  std::error_code ignored;
  fs::remove(path_ / "store", ignored);
  for (const auto& entry : fs::directory_iterator(path_, ignored))
    if (entry.path().filename().string().starts_with(group)) fs::remove_all(entry.path(), ignored);
}

}  // namespace dpbench
