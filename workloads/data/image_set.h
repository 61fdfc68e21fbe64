// 28x28 images with their labels, in memory that the ranks of a host share: each row made or read by one of them, once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "workloads/data/mapping.h"

namespace dpbench {

inline constexpr int64_t image_side = 28, image_bytes = image_side * image_side;

class ImageSet {
 public:
  // Writes image and label of a row; depends on nothing but the row's number.
  using Make = std::function<void(int64_t row, std::span<uint8_t> pixels, uint8_t& label)>;

  // Rows made when they are first asked for.
  static ImageSet made(const std::string& shared_dir, const std::string& name, int64_t rows, Make make);
  // Rows of two IDX files, read now unless another process has. Throws UsageError when the files do not fit together.
  static ImageSet read(const std::string& shared_dir, const std::string& images, const std::string& labels);
  // Throws UsageError unless read() would succeed; keeps nothing. Returns the rows.
  static int64_t require(const std::string& images, const std::string& labels);

  int64_t rows() const { return rows_; }

  // Makes the rows that nobody made so far. After it pixels() and label() of them may be read.
  void ensure(std::span<const int64_t> ids) const;
  const uint8_t* pixels(int64_t row) const { return pixels_ + row * image_bytes; }
  uint8_t label(int64_t row) const { return labels_[row]; }
  // Asks the memory for a row that will soon be read: scattered rows cost more to fetch than to convert.
  void fetch(int64_t row) const {
    __builtin_prefetch(labels_ + row);
    for (int64_t line = 0; line < image_bytes; line += 64) __builtin_prefetch(pixels(row) + line);
  }

 private:
  ImageSet(const std::string& shared_dir, const std::string& name, int64_t rows);
  void make_row(int64_t row) const;

  int64_t rows_;
  std::unique_ptr<Mapping> memory_;
  uint8_t *states_, *labels_, *pixels_;  // a state and a label for each row, then the images
  Make make_;
};

}  // namespace dpbench
