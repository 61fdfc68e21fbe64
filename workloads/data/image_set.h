// A set of 28x28 images and labels in memory shared by the ranks of a host. Each image is generated or read by one
// rank; others generate it again only if that rank does not finish in time.
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
  // A function that writes the image and label of sample number `row`. Pure: the result depends on `row` alone.
  using Make = std::function<void(int64_t row, std::span<uint8_t> pixels, uint8_t& label)>;

  // Returns a set whose images are generated on first use.
  static ImageSet made(const std::string& shared_dir, const std::string& name, int64_t images, Make make);
  // Returns the set of the images in one IDX file and the labels in another. Reads the files unless another process of
  // the run has already read them. Throws UsageError if the two files do not match.
  static ImageSet read(const std::string& shared_dir, const std::string& images, const std::string& labels);
  // Returns the number of images of two IDX files. Throws UsageError if the files are damaged or do not match.
  static int64_t require(const std::string& images, const std::string& labels);

  int64_t images() const { return images_; }

  // Generates the images among `ids` that are missing. Call it before you read their pixels or labels.
  void ensure(std::span<const int64_t> ids) const;
  const uint8_t* pixels(int64_t row) const { return pixels_ + row * image_bytes; }
  uint8_t label(int64_t row) const { return labels_[row]; }
  // Prefetches an image into the CPU cache: with random access, loading an image costs more than converting it.
  void prefetch(int64_t row) const {
    __builtin_prefetch(labels_ + row);
    for (int64_t line = 0; line < image_bytes; line += 64) __builtin_prefetch(pixels(row) + line);
  }

 private:
  ImageSet(const std::string& shared_dir, const std::string& name, int64_t images);
  void make_row(int64_t row) const;

  int64_t images_;
  std::unique_ptr<Mapping> memory_;
  uint8_t *states_, *labels_, *pixels_;  // layout of memory_: one state per image, one label per image, then the images
  Make make_;
};

}  // namespace dpbench
