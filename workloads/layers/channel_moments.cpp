#include "workloads/layers/channel_moments.h"

#include <algorithm>
#include <array>

namespace dpbench {
namespace {

constexpr int64_t channels_at_once = 4, chunk = 256;

// Returns, for each of `count` channels beginning with channel `first`, the sum of `of(value, c)` over all values of
// the channel, added in the order of the values; c = 0 for channel `first`. The function first computes `of` for a
// chunk of values, in a loop that the compiler vectorises. It then adds the results of several channels in turn: an
// addition must wait for the previous addition of the same channel, but not for those of other channels.
template <class Of>
[[gnu::always_inline]] inline std::array<double, channels_at_once> sums_of(const Images& images, int64_t first,
                                                                           int64_t count, const Of& of) {
  std::array<double, channels_at_once> sums{};
  double terms[channels_at_once][chunk] = {};
  for (int64_t row = 0; row < images.rows; ++row)
    for (int64_t begin = 0; begin < images.places; begin += chunk) {
      const int64_t here = std::min(chunk, images.places - begin);
      for (int64_t c = 0; c < count; ++c) {
        const float* values = images.values + (row * images.channels + first + c) * images.places + begin;
        for (int64_t i = 0; i < here; ++i) terms[c][i] = of(values[i], c);
      }
      auto so_far = sums;
      for (int64_t i = 0; i < here; ++i)
        for (int64_t c = 0; c < channels_at_once; ++c) so_far[c] += terms[c][i];
      sums = so_far;
    }
  return sums;
}

[[gnu::always_inline]] inline void moments(const Images& images, int64_t begin, int64_t end, float* means,
                                           float* square_sums) {
  for (int64_t first = begin; first < end; first += channels_at_once) {
    const int64_t count = std::min(channels_at_once, end - first);
    std::array<float, channels_at_once> mean{};
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

void moments_generic(const Images& images, int64_t begin, int64_t end, float* means, float* square_sums) {
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

std::vector<ChannelMoments> supported_moments() {
  std::vector<ChannelMoments> found;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) found.push_back(moments_avx512);
  if (__builtin_cpu_supports("avx2")) found.push_back(moments_avx2);
#endif
  found.push_back(moments_generic);
  return found;
}

}  // namespace

const std::vector<ChannelMoments>& channel_moments() {
  static const std::vector<ChannelMoments> found = supported_moments();
  return found;
}

}  // namespace dpbench
