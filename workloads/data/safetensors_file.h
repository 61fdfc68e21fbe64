// Safetensors on disk: read piece by piece from an open file, written whole or not at all. No torch.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "workloads/data/safetensors.h"

namespace dpbench {

class SafetensorsFile {
 public:
  // what: the flag that named the file, for messages. Throws UsageError for all that is wrong with it.
  SafetensorsFile(const std::string& path, const std::string& what);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const SafetensorsHeader& header() const { return header_; }
  // to: exactly the tensor's bytes.
  void read(const StoredTensor& tensor, std::span<std::byte> to) const;

 private:
  std::string what_;
  int fd_ = -1;
  uint64_t data_at_ = 0;
  SafetensorsHeader header_;
};

// A file could not be written (no room, no right); what stood there before is untouched.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Replaces path in one rename, synced. The bytes belong to header.tensors, which have their places, in their order.
void write_safetensors(const std::string& path, const SafetensorsHeader& header,
                       const std::vector<std::span<const std::byte>>& bytes);

// Throws UsageError when a file of this name could not be written now: before hours of work, not after. Leaves no
// trace.
void require_writable(const std::string& path, const std::string& what);

}  // namespace dpbench
