// Zero-initialised memory, shared by all processes of a run on this host if they have a shared directory.
#pragma once

#include <cstddef>
#include <string>

namespace dpbench {

class Mapping {
 public:
  // Maps the file `name` in `directory`, created by the first process. An empty directory gives private memory.
  Mapping(const std::string& directory, const std::string& name, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }

  // Allocates file system space for the range, so that writing cannot raise SIGBUS.
  void reserve(size_t offset, size_t bytes) const;

  // Exclusive among processes and threads. The kernel releases it when the process dies.
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
