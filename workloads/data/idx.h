// A file in MNIST's IDX format, plain or gzip. Nothing is believed before it was compared with the size of the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dpbench {

class IdxFile {
 public:
  // Opens the file and checks its header: unsigned bytes in this many dimensions. Throws UsageError.
  IdxFile(const std::string& path, size_t dimensions);

  const std::string& path() const { return path_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t bytes() const { return bytes_; }

  // Reads all that follows the header, once; out holds bytes(). Throws UsageError when the file ends early or goes on.
  void read(std::span<uint8_t> out);
  // The same without keeping it. A plain file's size has said all.
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
