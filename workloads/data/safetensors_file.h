// Safetensors files: tensors are read one at a time, files are written atomically. No torch dependency.
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
  // what: the flag that named the file, for messages. Throws UsageError if the file is missing or malformed.
  SafetensorsFile(const std::string& path, const std::string& what);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const SafetensorsHeader& header() const { return header_; }
  // to: must have exactly the tensor's size.
  void read(const StoredTensor& tensor, std::span<std::byte> to) const;

 private:
  std::string what_;
  int fd_ = -1;
  uint64_t data_at_ = 0;
  SafetensorsHeader header_;
};

// A file could not be written (disk full, no permission). An existing file is left untouched.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Replaces `path` by fsync and rename. bytes[i] belongs to header.tensors[i], which must have its offsets.
void write_safetensors(const std::string& path, const SafetensorsHeader& header,
                       const std::vector<std::span<const std::byte>>& bytes);

// Throws UsageError if `path` cannot be written, so that a long run fails at its start. Leaves no file behind.
void require_writable(const std::string& path, const std::string& what);

}  // namespace dpbench
