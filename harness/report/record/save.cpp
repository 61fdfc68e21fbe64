#include "harness/report/record/save.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string errno_text() { return std::strerror(errno); }

// Opens a directory for openat() and related calls, creating it and its parents if needed. Returns the descriptor.
int open_directory(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw UsageError("results directory " + path.string() + " is a file. Use --out with a directory");
  fs::create_directories(path, error);
  const int fd = error ? -1 : ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) return fd;
  throw UsageError("results directory " + path.string() + " cannot be created or opened (" +
                   (error ? error.message() : errno_text()) + "). Use --out with a writable one");
}

// Returns the directory and its parents that do not exist yet, innermost first.
std::vector<fs::path> missing_directories(fs::path path) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (; !path.empty() && !fs::exists(path, ignored); path = path.parent_path()) missing.push_back(path);
  return missing;
}

// Returns the name of the temporary file that holds a file's new text until the text is complete.
std::string temporary_name(const std::string& name) { return "." + name + "." + std::to_string(::getpid()) + ".part"; }

int open_temporary(int directory, const std::string& name, const std::string& what) {
  ::unlinkat(directory, name.c_str(), 0);  // remove a file left over from a killed process with the same process id
  const int fd = ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) throw WriteError("cannot write " + what + ": " + errno_text());
  return fd;
}

// Returns a time in UTC, in a format of strftime().
std::string time_text(std::chrono::system_clock::time_point time, const char* form) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, form, &utc);
  return text;
}

bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

void check_name(const std::string& name, const std::string& what) {
  const auto refuse = [&](const std::string& reason) { throw UsageError(what + " " + reason); };
  if (name.empty()) refuse("is empty");
  if (name.size() > 128) refuse("is longer than 128 bytes");
  if (!is_utf8(name)) refuse("is not valid UTF-8");
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse("contains a control character");
  if (name.find('/') != std::string::npos) refuse("'" + name + "' contains a '/'. Use a plain name");
  if (name.front() == '-' || name.front() == '.') refuse("'" + name + "' begins with '" + name.front() + "'");
}

std::string utc_text(std::chrono::system_clock::time_point time) { return time_text(time, "%Y-%m-%dT%H:%M:%SZ"); }

std::string run_id(std::chrono::system_clock::time_point now, const std::string& commit, const std::string& machine) {
  std::string id = time_text(now, "%Y%m%dT%H%M%SZ") + "-" + commit + "-" + machine;
  for (char& c : id)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("-_.+", c)) c = '_';
  return id.substr(0, 120);
}

RunDirectory::RunDirectory(const fs::path& results, const std::string& id) : created_(missing_directories(results)) {
  check_name(id, "run id");
  const Descriptor parent(open_directory(results));
  for (int copy = 1; copy < 100; ++copy) {
    char suffix[8] = "";
    if (copy > 1) std::snprintf(suffix, sizeof suffix, "-%02d", copy);
    id_ = id + suffix;
    if (::mkdirat(parent.get(), id_.c_str(), 0777) == 0) break;
    if (errno != EEXIST || copy == 99)
      throw UsageError("cannot create a run directory in " + results.string() + " (" + errno_text() +
                       "). Use --out with a writable directory");
  }
  path_ = results / id_;
  descriptor_ = ::openat(parent.get(), id_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0) throw UsageError("cannot open " + path_.string() + ": " + errno_text());
}

RunDirectory::~RunDirectory() { ::close(descriptor_); }

void RunDirectory::remove() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  // Remove only empty directories: rmdir() fails, as intended, if the directory is not empty.
  for (const auto& directory : created_) ::rmdir(directory.c_str());
}

void RunDirectory::save(const Report& report, bool force) {
  const auto now = std::chrono::steady_clock::now();
  if (!force && now < next_save_) return;
  save("run", to_json(report));
  next_save_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
}

void RunDirectory::save(const std::string& name, const Json& document) const {
  write_whole(descriptor_, name + ".json", document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n",
              (path_ / (name + ".json")).string());
}

bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

void write_whole(int directory, const std::string& name, const std::string& text, const std::string& what) {
  const std::string temporary = temporary_name(name);
  try {
    const Descriptor file(open_temporary(directory, temporary, what));
    if (!write_all(file.get(), text) || ::fsync(file.get()) != 0)
      throw WriteError("cannot write " + what + ": " + errno_text());
    if (::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0 || ::fsync(directory) != 0)
      throw WriteError("cannot write " + what + ": " + errno_text());
  } catch (const WriteError&) {
    ::unlinkat(directory, temporary.c_str(), 0);
    throw;
  }
}

void check_writable(int directory, const std::string& name, const std::string& what) {
  const std::string temporary = temporary_name(name);
  const Descriptor file(open_temporary(directory, temporary, what));
  ::unlinkat(directory, temporary.c_str(), 0);
}

void check_baseline_path(const fs::path& results, const std::string& name) {
  check_name(name, "--save-baseline");
  const fs::path directory = results / "baselines", file = directory / (name + ".json");
  const auto refuse = [](const fs::path& path, const std::string& reason) {
    throw UsageError("--save-baseline: " + path.string() + " " + reason + ". Move it away or use another --out");
  };
  std::error_code error;
  if (!fs::exists(directory, error)) return;
  if (!fs::is_directory(directory, error)) refuse(directory, "is a file");
  if (::access(directory.c_str(), W_OK | X_OK) != 0) refuse(directory, "cannot be written (" + errno_text() + ")");
  if (fs::is_directory(file, error)) refuse(file, "is a directory");
}

fs::path save_baseline(const Report& report, const fs::path& results, const std::string& name) {
  check_name(name, "baseline name");
  const fs::path directory = results / "baselines";
  const Descriptor baselines(open_directory(directory));
  const fs::path path = directory / (name + ".json");
  write_whole(baselines.get(), name + ".json",
              to_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n", path.string());
  return path;
}

}  // namespace dpbench
