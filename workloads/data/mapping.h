// A mapping of zero-initialised memory. All processes of a run on this host share it if they have a shared directory.
#pragma once

#include <cstddef>
#include <string>

namespace dpbench {

class Mapping {
 public:
  // Maps the file `name` in `directory`; the first process creates it. If `directory` is empty, the memory is private.
  Mapping(const std::string& directory, const std::string& name, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }

  // Allocates file system space for the byte range, so that writing to it cannot raise SIGBUS. A no-op for private
  // memory and on file systems without fallocate().
  void reserve(size_t offset, size_t bytes) const;

  // A lock on a shared mapping that excludes other processes and threads; it does nothing for private memory. The
  // kernel releases it when the process dies.
  class Lock {
   public:
    explicit Lock(const Mapping& mapping);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int fd_;
  };

 private:
  std::string path_;
  size_t bytes_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace dpbench
