#include "harness/front/check_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness/front/text.h"
#include "harness/report/save.h"
#include "workloads/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

bool write_in_place(const Fd& file, const std::string& text) {
  if (::ftruncate(file.get(), 0) != 0 && errno != EINVAL) return false;  // which a pipe or a device says
  return write_all(file.get(), text);
}

// Why no file of this name could be put into the folder; empty: it can.
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
  const bool there = fs::exists(path, error);
  if (there) {
    itself_ = Fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!itself_) refuse(std::strerror(errno));
    if (!fs::is_regular_file(path, error)) return;
  }
  const fs::path file = there ? fs::canonical(path, error) : fs::absolute(path);  // a link stays
  name_ = file.filename();
  folder_ = Fd(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string why = why_not_into(folder_, name_);
  if (!why.empty() && !there) refuse(why);
  (why.empty() ? itself_ : folder_).reset();
}

std::string JunitFile::write(const std::string& text) const {
  if (itself_ && !write_in_place(itself_, text)) return "cannot write " + shown_ + ": " + std::strerror(errno);
  if (!folder_) return "";
  try {
    write_whole(folder_.get(), name_, text, shown_);
  } catch (const WriteError& error) {
    return error.what();
  }
  return "";
}

DumpDirectory::Made::~Made() {
  for (const auto& path : paths) ::rmdir(path.c_str());  // refused by one in which anything lies
}

DumpDirectory::DumpDirectory(const std::string& path) {
  if (path.empty()) return;
  const std::string named = "--dump '" + one_line(path, 200) + "'";
  std::error_code error;
  for (fs::path missing = fs::absolute(path); !fs::exists(missing, error); missing = missing.parent_path())
    made_.paths.push_back(missing);
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) throw UsageError(named + ": " + (error ? error.message() : "is not a directory"));
  if (!fs::is_empty(path)) throw UsageError(named + " is not empty; name a new directory");
  if (::access(path.c_str(), W_OK) != 0) throw UsageError(named + ": " + std::strerror(errno));
}

}  // namespace dpbench
