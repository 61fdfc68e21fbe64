// Makes valid and malformed files in MNIST's IDX format, in temporary folders that are removed after the test.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "workloads/base/error.h"
#include "workloads/data/image_set.h"

namespace dpbench {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "dpbench-data-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string text() const { return path_.string(); }

 private:
  fs::path path_;
};

inline Bytes idx(uint8_t dimensions, const std::vector<uint32_t>& sizes, const Bytes& payload, uint8_t type = 8) {
  Bytes out{0, 0, type, dimensions};
  for (const uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(size >> shift));
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

inline std::string write(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  return path.string();
}

inline Bytes gzip(const Bytes& bytes) {
  Bytes out(bytes.size() + 1000);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<unsigned>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline Bytes counting(size_t count, int modulo = 251) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i % static_cast<size_t>(modulo));
  return bytes;
}

// Returns the message of the UsageError that `call` throws, or "nothing was refused" if it throws none.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

// Expects that an error message has one line and contains all parts.
inline void expect_line(const std::string& message, const std::vector<std::string>& parts) {
  expect_contains(message, parts);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

struct Mnist {
  Folder folder;
  Bytes train = counting(20 * image_bytes), test = counting(5 * image_bytes, 241);
  Bytes train_labels = counting(20, 10), test_labels = counting(5, 10);

  explicit Mnist(const std::string& separator = "-", bool packed = false) {
    const auto write_file = [&](const std::string& name, const Bytes& bytes) {
      write(folder / (name + (packed ? ".gz" : "")), packed ? gzip(bytes) : bytes);
    };
    write_file("train-images" + separator + "idx3-ubyte", idx(3, {20, 28, 28}, train));
    write_file("train-labels" + separator + "idx1-ubyte", idx(1, {20}, train_labels));
    write_file("t10k-images" + separator + "idx3-ubyte", idx(3, {5, 28, 28}, test));
    write_file("t10k-labels" + separator + "idx1-ubyte", idx(1, {5}, test_labels));
  }
};

}  // namespace dpbench
