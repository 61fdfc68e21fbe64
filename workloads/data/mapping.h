// Memory that starts as zeros and that all processes of a run on this host see, when it has a directory to share.
#pragma once

#include <cstddef>
#include <string>

namespace dpbench {

class Mapping {
 public:
  // directory empty: memory of this process alone. Otherwise the file `name` in it, created by whoever comes first.
  Mapping(const std::string& directory, const std::string& name, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }

  // Makes sure that the file system has room for these bytes, so that writing them cannot end in SIGBUS.
  void reserve(size_t offset, size_t bytes) const;

  // Held by one process or thread at a time, given back by the kernel when a process dies.
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
