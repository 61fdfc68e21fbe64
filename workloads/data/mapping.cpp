#include "workloads/data/mapping.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw UsageError(what + " '" + path + "': " + std::strerror(errno) + " (the directory where ranks share their data)");
}

}  // namespace

Mapping::Mapping(const std::string& directory, const std::string& name, size_t bytes)
    : path_(directory + "/" + name), bytes_(bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (!directory.empty()) {
    flags = MAP_SHARED;
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd_ < 0) fail("cannot open", path_);
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
      close(fd_);
      fail("cannot set the size of", path_);
    }
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd_, 0);
  if (memory == MAP_FAILED) {
    if (fd_ >= 0) close(fd_);
    fail("cannot map", path_);
  }
  data_ = static_cast<std::byte*>(memory);
}

Mapping::~Mapping() {
  munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
}

void Mapping::reserve(size_t offset, size_t bytes) const {
  if (fd_ < 0 || fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return;
  if (errno != EOPNOTSUPP) fail("no room for " + std::to_string(bytes) + " bytes in", path_);
}

// Opens the mapping's file once more, because flock() excludes threads of the same process only if each has its own
// open file description.
Mapping::Lock::Lock(const Mapping& mapping) : fd_(-1) {
  if (mapping.fd_ < 0) return;
  fd_ = open(mapping.path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0) fail("cannot lock", mapping.path_);
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    close(fd_);
    errno = error;
    fail("cannot lock", mapping.path_);
  }
}

Mapping::Lock::~Lock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace dpbench
