#include "workloads/data/digits.h"

#include <algorithm>
#include <span>
#include <string>

#include <ATen/ops/empty.h>

#include "workloads/data/drawn_digits.h"
#include "workloads/data/mnist_files.h"
#include "workloads/layers/loss.h"

namespace dpbench {
namespace {

struct DigitSet {
  const char* name;
  int64_t drawn_samples;
  uint64_t drawn_seed;
  std::string MnistFiles::* images;
  std::string MnistFiles::* labels;
};
constexpr DigitSet train_set{"drawn-train.rows", 60'000, 1, &MnistFiles::train_images, &MnistFiles::train_labels};
constexpr DigitSet test_set{"drawn-test.rows", 10'000, 2, &MnistFiles::test_images, &MnistFiles::test_labels};

ImageSet open_set(const WorkloadOptions& options, const DigitSet& set) {
  if (!options.data_dir.empty()) {
    const auto files = find_mnist(options.data_dir);
    return ImageSet::read(options.shared_dir, files.*set.images, files.*set.labels);
  }
  return ImageSet::made(options.shared_dir, set.name, set.drawn_samples,
                        [seed = set.drawn_seed](int64_t row, std::span<uint8_t> pixels, uint8_t& label) {
                          label = drawn_label(seed, row);
                          draw_digit(seed, row, pixels);
                        });
}

// Number of images whose memory is prefetched ahead of use. They have 50 kB in all, which keeps as many cache misses
// outstanding as a core supports.
constexpr size_t prefetch_distance = 64;

std::span<const int64_t> span_of(const at::Tensor& ids) {
  return {ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel())};
}

}  // namespace

Batch images_to_batch(const ImageSet& set, const at::Tensor& ids, PixelRange range) {
  const auto dense = ids.contiguous();
  const auto samples = span_of(dense);
  set.ensure(samples);
  auto input = at::empty({ids.numel(), 1, image_side, image_side}, at::kFloat);
  auto target = at::empty({ids.numel()}, at::kLong);
  auto* pixels = input.data_ptr<float>();
  auto* labels = target.data_ptr<int64_t>();
  for (size_t i = 0; i < std::min(prefetch_distance, samples.size()); ++i) set.prefetch(samples[i]);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i + prefetch_distance < samples.size()) set.prefetch(samples[i + prefetch_distance]);
    convert_pixels(set.pixels(samples[i]), image_bytes, range, pixels);
    pixels += image_bytes;
    *labels++ = set.label(samples[i]);
  }
  return {std::move(input), std::move(target), ids};
}

DigitsWorkload::DigitsWorkload(const WorkloadOptions& options, PixelRange range)
    : train_(open_set(options, train_set)), test_(open_set(options, test_set)), range_(range) {}

at::Tensor DigitsWorkload::loss(const at::Tensor& output, const at::Tensor& target) const {
  return cross_entropy(output, target);
}

void DigitsWorkload::prepare(const at::Tensor& ids) const { train_.ensure(span_of(ids.contiguous())); }

}  // namespace dpbench
