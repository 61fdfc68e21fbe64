#include "harness/front/commands/check/check_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness/front/text/paths.h"
#include "harness/front/text/text.h"
#include "harness/report/record/save.h"
#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

// The target of a chain of symbolic links: a file name, or an open descriptor of this process for paths like
// /dev/stdout and /dev/fd/3.
struct Target {
  fs::path file = {};
  int descriptor = -1;
};

int descriptor_named(const fs::path& file) {
  if (file.parent_path() != "/proc/" + std::to_string(::getpid()) + "/fd") return -1;
  return parse_number<int>(file.filename().native()).value_or(-1);
}

// Follows the symbolic links of `path`. The final file need not exist, but its directory must; otherwise sets `error`.
Target resolve_links(fs::path path, std::error_code& error) {
  constexpr int max_links = 40;  // Linux's own limit on symbolic links in a path
  for (int links = 0; links <= max_links; ++links) {
    const fs::path folder = fs::canonical(path.parent_path(), error);
    if (error) return {};
    path = folder / path.filename();
    if (const int number = descriptor_named(path); number >= 0) return {.descriptor = number};
    std::error_code none;
    if (!fs::is_symlink(path, none)) return {.file = path};
    const fs::path next = folder / fs::read_symlink(path, error);
    if (error) return {};
    if (!fs::exists(fs::symlink_status(next, none)) && fs::exists(path, none))
      return {.file = path};  // `path` is a link in /proc to a pipe; read_symlink() returns a text that is no path
    path = next;
  }
  error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  return {};
}

// Duplicates a writable descriptor; the copy shares the file offset. Returns an empty Fd and sets errno if it is not
// writable.
Fd duplicate(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  errno = EBADF;
  return Fd();
}

bool write_in_place(const Fd& file, const std::string& text) {
  // ftruncate() fails with EINVAL for a pipe or a device, which needs no truncation.
  if (::ftruncate(file.get(), 0) != 0 && errno != EINVAL) return false;
  return write_all(file.get(), text);
}

// Returns the reason that a file called `name` cannot be created in the directory; empty if it can.
std::string why_not_into(const Fd& folder, const std::string& name) {
  if (!folder) return std::strerror(errno);
  try {
    check_writable(folder.get(), name, "it");
  } catch (const WriteError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

JunitFile::JunitFile(const std::string& path) : shown_(one_line(path, 200)) {
  if (path.empty()) return;
  const auto refuse = [&](const std::string& why) { throw UsageError("--junit '" + shown_ + "': " + why); };
  std::error_code error;
  const Target target = resolve_links(absolute_path("--junit", path), error);
  if (error) refuse(error.message());
  if (target.descriptor >= 0) {
    inherited_ = duplicate(target.descriptor);
    if (!inherited_) refuse(std::strerror(errno));
    return;
  }
  const bool there = fs::exists(target.file, error);
  if (there) {
    in_place_ = Fd(::open(target.file.c_str(), O_WRONLY | O_CLOEXEC));
    if (!in_place_) refuse(std::strerror(errno));
    if (!fs::is_regular_file(target.file, error)) return;
  }
  name_ = target.file.filename();
  folder_ = Fd(::open(target.file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string why = why_not_into(folder_, name_);
  if (!why.empty() && !there) refuse(why);
  (why.empty() ? in_place_ : folder_).reset();
}

std::string JunitFile::write(const std::string& text) const {
  const bool written = inherited_ ? write_all(inherited_.get(), text) : !in_place_ || write_in_place(in_place_, text);
  if (!written) return "cannot write " + shown_ + ": " + std::strerror(errno);
  if (!folder_) return "";
  try {
    write_whole(folder_.get(), name_, text, shown_);
  } catch (const WriteError& error) {
    return error.what();
  }
  return "";
}

DumpDirectory::Made::~Made() {
  // rmdir removes only empty directories, so a dump is never deleted.
  for (const auto& path : paths) ::rmdir(path.c_str());
}

DumpDirectory::DumpDirectory(const std::string& path) {
  if (path.empty()) return;
  const std::string named = "--dump '" + one_line(path, 200) + "'";
  std::error_code error;
  for (fs::path missing = absolute_path("--dump", path); !fs::exists(missing, error); missing = missing.parent_path())
    made_.paths.push_back(missing);
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path))
    throw UsageError(named + ": " + (error ? error.message() : "is not a directory"));
  const bool empty = fs::is_empty(path, error);
  if (error) throw UsageError(named + ": " + error.message());
  if (!empty) throw UsageError(named + " is not empty. Use a new directory");
  if (::access(path.c_str(), W_OK) != 0) throw UsageError(named + ": " + std::strerror(errno));
}

}  // namespace dpbench
