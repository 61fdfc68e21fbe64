// Reads a file in MNIST's IDX format, plain or gzip. Header values are checked against the file size before use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dpbench {

class IdxFile {
 public:
  // Opens an IDX file. Throws UsageError unless it holds unsigned bytes in this number of dimensions.
  IdxFile(const std::string& path, size_t dimensions);

  const std::string& path() const { return path_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t bytes() const { return bytes_; }

  // Reads all data of the file into `out`, which must hold bytes() bytes. May be called only once. Throws UsageError if
  // the file is shorter or longer than its header says, or damaged.
  void read(std::span<uint8_t> out);
  // Reads a gzip file without keeping its data, and throws UsageError if they are damaged or have another size than the
  // header says. Does nothing for a plain file, whose size has been checked before.
  void skim();

 private:
  struct Close {
    void operator()(void* file) const;
  };

  void read_header(size_t dimensions);
  void check_size(int64_t file_bytes);
  int64_t read_some(void* out, int64_t bytes);
  void require_end(int64_t got);
  void require_sound() const;
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const;

  std::string path_;
  std::unique_ptr<void, Close> file_;
  std::vector<int64_t> sizes_;
  int64_t bytes_ = 0;
};

}  // namespace dpbench
