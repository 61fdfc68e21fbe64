// Reads and writes safetensors files: tensors are read one at a time, and files are written atomically. Does not depend
// on torch.
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
  // Opens a file and parses its header. what: the flag that named the file, for error messages. Throws UsageError if
  // the file is missing or malformed.
  SafetensorsFile(const std::string& path, const std::string& what);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const SafetensorsHeader& header() const { return header_; }
  // Reads a tensor's data into `to`, which must have exactly the tensor's size.
  void read(const StoredTensor& tensor, std::span<std::byte> to) const;

 private:
  std::string what_;
  int fd_ = -1;
  uint64_t data_at_ = 0;
  SafetensorsHeader header_;
};

// Thrown if a file could not be written (disk full, no permission). An existing file is left untouched.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file is first written under a temporary name, which is `path` + draft_mark + six random letters and digits, and
// then renamed to `path`.
inline constexpr const char* draft_mark = ".draft-";
// Writes a temporary file and renames it to `path`, with fsync.
void write_file(const std::string& path, const std::vector<std::span<const std::byte>>& bytes);
// Writes a safetensors file: a temporary file, which is renamed to `path`. bytes[i] is the data of header.tensors[i],
// which must have its offsets assigned.
void write_safetensors(const std::string& path, const SafetensorsHeader& header,
                       const std::vector<std::span<const std::byte>>& bytes);

// Throws UsageError if `path` cannot be written, so that a long run fails at its start. Leaves no file behind. what:
// the flag that named the file.
void require_writable(const std::string& path, const std::string& what);

}  // namespace dpbench
