#include "workloads/data/safetensors_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Reads as many bytes as `to` holds, from this offset of the file. Returns false if the file ends before or on an
// error.
bool read_at(int fd, uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return true;
}

// A temporary file in the folder of the target file. commit() renames it to the target. Without commit(), the
// destructor removes it.
class Draft {
 public:
  explicit Draft(const std::string& path) : path_(path), name_(path + draft_mark + "XXXXXX") {
    fd_ = ::mkostemp(name_.data(), O_CLOEXEC);
    if (fd_ >= 0) return;
    const int error = errno;
    throw FileError("cannot write " + path_ + ": " + std::strerror(error));
  }
  ~Draft() {
    if (fd_ >= 0) ::close(fd_);
    if (!committed_) ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) fail();
      bytes = bytes.subspan(static_cast<size_t>(wrote));
    }
  }

  void commit() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd_, 0666 & ~mask) != 0 || ::fsync(fd_) != 0 || ::rename(name_.c_str(), path_.c_str()) != 0) fail();
    committed_ = true;
    const std::string folder = std::filesystem::path(path_).parent_path();
    const int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    ::fsync(directory);  // without fsync of the directory, a power cut could undo the rename
    ::close(directory);
  }

 private:
  [[noreturn]] void fail() const { throw FileError("cannot write " + path_ + ": " + std::strerror(errno)); }

  std::string path_, name_;
  int fd_ = -1;
  bool committed_ = false;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, const std::string& what) : what_(what + " '" + path + "'") {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for its writer
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw UsageError(what_ + ": " + std::strerror(errno));
  try {
    struct stat info{};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) throw UsageError(what_ + " is not a regular file");
    const auto size = static_cast<uint64_t>(info.st_size);
    std::array<std::byte, safetensors_prefix> prefix{};
    if (size < prefix.size() || !read_at(fd_, 0, prefix))
      throw UsageError(what_ + " has " + std::to_string(size) + " bytes: too short for a safetensors file");
    uint64_t length = 0;
    for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(prefix[i]);
    if (length > safetensors_max_header)
      throw UsageError(what_ + " announces a header of " + std::to_string(length) +
                       " bytes: more than the 100 MiB allowed");
    if (length > size - prefix.size())
      throw UsageError(what_ + " announces a header of " + std::to_string(length) + " bytes and has " +
                       std::to_string(size - prefix.size()) + " left: truncated, or no safetensors file");
    std::string text(length, '\0');
    if (!read_at(fd_, prefix.size(), std::as_writable_bytes(std::span(text))))
      throw UsageError(what_ + " cannot be read");
    data_at_ = prefix.size() + length;
    header_ = parse_safetensors(text, size - data_at_, what_);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(fd_); }

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> to) const {
  check(to.size() == tensor.end - tensor.begin, "the buffer does not have the tensor's size");
  if (!read_at(fd_, data_at_ + tensor.begin, to)) throw UsageError(what_ + " was cut short while it was read");
}

void write_file(const std::string& path, const std::vector<std::span<const std::byte>>& bytes) {
  Draft draft(path);
  for (const auto& piece : bytes) draft.write(piece);
  draft.commit();
}

void write_safetensors(const std::string& path, const SafetensorsHeader& header,
                       const std::vector<std::span<const std::byte>>& bytes) {
  check(bytes.size() == header.tensors.size(), "one span of bytes is needed per tensor");
  for (size_t i = 0; i < bytes.size(); ++i)
    check(bytes[i].size() == header.tensors[i].end - header.tensors[i].begin,
          "the bytes do not have the tensor's size");
  const std::string text = format_safetensors(header);
  std::vector<std::span<const std::byte>> all = {std::as_bytes(std::span(text))};
  all.insert(all.end(), bytes.begin(), bytes.end());
  write_file(path, all);
}

void require_writable(const std::string& path, const std::string& what) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw UsageError(what + " '" + path + "' exists and is not a regular file");
  try {
    Draft{path};
  } catch (const FileError& error) {
    throw UsageError(what + ": " + error.what() + "; give a path in a directory that you may write to");
  }
}

}  // namespace dpbench
