// Memory that other processes of this host can map: a memfd (anonymous memory file), opened by others through
// /proc/PID/fd. Unlike a file in /dev/shm it has no name and no mount size limit, and it cannot leak: it is freed with
// its last mapping, even after a crash.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace dpbench::shm {

class Mapping {
 public:
  Mapping() = default;
  // Maps the memory behind a file descriptor, without taking ownership of the descriptor.
  Mapping(int fd, size_t bytes);
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

// Returns a file descriptor of new zeroed memory. Its pages are allocated on first touch.
Descriptor create_memory(const std::string& label, size_t bytes);

// Maps the memory behind another process's file descriptor. Throws if the memory's size differs from `bytes`.
Mapping map_memory_of(pid_t pid, int fd, size_t bytes);

// Copies memory of another process into this process. Returns false if the kernel forbids it, if that process is gone,
// or if its memory cannot be read; the bytes at `to` are then undefined.
bool copy_from_process(pid_t pid, const char* from, char* to, size_t bytes);

// Throws std::system_error with errno's message, prefixed with `what`.
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace dpbench::shm
