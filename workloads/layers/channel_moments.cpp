#include "workloads/layers/channel_moments.h"

#include <algorithm>
#include <array>

namespace dpbench {
namespace {

constexpr int64_t at_once = 4, block = 256;

// Adds of(value, channel) to the sum of each of the `count` channels from `first` on, in the order of the values. What
// can be made for many values at once is made first; then each channel's sum waits only for itself.
template <class Of>
[[gnu::always_inline]] inline std::array<double, at_once> sums_of(const Images& images, int64_t first, int64_t count,
                                                                  const Of& of) {
  std::array<double, at_once> sums{};
  double made[at_once][block] = {};
  for (int64_t row = 0; row < images.rows; ++row)
    for (int64_t begin = 0; begin < images.places; begin += block) {
      const int64_t here = std::min(block, images.places - begin);
      for (int64_t c = 0; c < count; ++c) {
        const float* values = images.values + (row * images.channels + first + c) * images.places + begin;
        for (int64_t i = 0; i < here; ++i) made[c][i] = of(values[i], c);
      }
      auto so_far = sums;
      for (int64_t i = 0; i < here; ++i)
        for (int64_t c = 0; c < at_once; ++c) so_far[c] += made[c][i];
      sums = so_far;
    }
  return sums;
}

[[gnu::always_inline]] inline void moments(const Images& images, int64_t begin, int64_t end, float* means,
                                           float* square_sums) {
  for (int64_t first = begin; first < end; first += at_once) {
    const int64_t count = std::min(at_once, end - first);
    std::array<float, at_once> mean{};
    const auto sums = sums_of(images, first, count, [](float value, int64_t) { return static_cast<double>(value); });
    for (int64_t c = 0; c < count; ++c)
      mean[c] = static_cast<float>(sums[c] / static_cast<double>(images.rows * images.places));
    const auto squares = sums_of(images, first, count, [&mean](float value, int64_t c) {
      const float off = value - mean[c];
      return static_cast<double>(off * off);
    });
    for (int64_t c = 0; c < count; ++c) {
      means[first + c] = mean[c];
      square_sums[first + c] = static_cast<float>(squares[c]);
    }
  }
}

void moments_anywhere(const Images& images, int64_t begin, int64_t end, float* means, float* square_sums) {
  moments(images, begin, end, means, square_sums);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void moments_avx2(const Images& images, int64_t begin, int64_t end, float* means,
                                          float* square_sums) {
  moments(images, begin, end, means, square_sums);
}
[[gnu::target("avx512f,avx512vl")]] void moments_avx512(const Images& images, int64_t begin, int64_t end, float* means,
                                                        float* square_sums) {
  moments(images, begin, end, means, square_sums);
}
#endif

std::vector<ChannelMoments> those_that_run() {
  std::vector<ChannelMoments> found;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) found.push_back(moments_avx512);
  if (__builtin_cpu_supports("avx2")) found.push_back(moments_avx2);
#endif
  found.push_back(moments_anywhere);
  return found;
}

}  // namespace

const std::vector<ChannelMoments>& channel_moments() {
  static const std::vector<ChannelMoments> found = those_that_run();
  return found;
}

}  // namespace dpbench
