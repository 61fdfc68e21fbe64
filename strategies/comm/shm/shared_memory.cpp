#include "strategies/comm/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "workloads/base/error.h"

namespace dpbench::shm {

void throw_errno(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

Mapping::Mapping(int fd, size_t bytes) : bytes_(bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " bytes of shared memory");
  data_ = static_cast<char*>(at);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_) munmap(data_, bytes_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor create_memory(const std::string& label, size_t bytes) {
  Descriptor memory(memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!memory) throw_errno("creating shared memory");
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) throw_errno("sizing shared memory");
  return memory;
}

bool copy_from_process(pid_t pid, const char* from, char* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const iovec here{to + done, bytes - done}, there{const_cast<char*>(from) + done, bytes - done};
    const ssize_t count = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

Mapping map_memory_of(pid_t pid, int fd, size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const Descriptor memory(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!memory) throw_errno("opening the shared memory of process " + std::to_string(pid));
  struct stat facts{};
  if (fstat(memory.get(), &facts) != 0) throw_errno("inspecting the shared memory of process " + std::to_string(pid));
  check(static_cast<size_t>(facts.st_size) == bytes, path + " is not the shared memory that was announced");
  return {memory.get(), bytes};
}

}  // namespace dpbench::shm
