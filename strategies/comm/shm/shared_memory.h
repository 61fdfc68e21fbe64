// Memory that the other processes of this host can map: a memfd, reached through /proc/PID/fd. It has no name and no
// size limit of a mounted /dev/shm, and is gone with the last process that maps it, however that process ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace dpbench::shm {

class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, size_t bytes);  // the descriptor stays the caller's
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// New zeroed memory. Pages are taken when they are first touched.
Descriptor create_memory(const std::string& label, size_t bytes);

// The memory behind another process's descriptor; throws when there is none of this size.
Mapping map_memory_of(pid_t pid, int fd, size_t bytes);

// The message of errno, after what was tried.
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace dpbench::shm
