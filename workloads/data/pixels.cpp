#include "workloads/data/pixels.h"

namespace dpbench {
namespace {

// value = pixel * high + pixel * low. 1/255 in two parts, the first short enough to make its product exact: so the sum
// is rounded once, as pixel / 255 is, without the price of dividing.
struct PixelFactor {
  float high, low;
};
constexpr PixelFactor unit_factor{0x1.01p-8f, 0x1.010102p-24f}, byte_factor{1, 0};

using Convert = void (*)(const uint8_t* pixels, int64_t count, PixelFactor factor, float* out);

// The same sums, in the registers of whoever it is put into.
[[gnu::always_inline]] inline void convert(const uint8_t* pixels, int64_t count, PixelFactor factor, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto pixel = static_cast<float>(static_cast<int32_t>(pixels[i]));
    out[i] = pixel * factor.high + pixel * factor.low;
  }
}

void convert_anywhere(const uint8_t* pixels, int64_t count, PixelFactor factor, float* out) { convert(pixels, count, factor, out); }

#ifdef __x86_64__
[[gnu::target("avx2")]] void convert_avx2(const uint8_t* pixels, int64_t count, PixelFactor factor, float* out) {
  convert(pixels, count, factor, out);
}
[[gnu::target("avx512f,avx512bw,avx512vl")]] void convert_avx512(const uint8_t* pixels, int64_t count, PixelFactor factor, float* out) {
  convert(pixels, count, factor, out);
}
#endif

Convert best() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return convert_avx512;
  if (__builtin_cpu_supports("avx2")) return convert_avx2;
#endif
  return convert_anywhere;
}

}  // namespace

void convert_pixels(const uint8_t* pixels, int64_t count, PixelRange range, float* out) {
  static const Convert chosen = best();
  chosen(pixels, count, range == PixelRange::unit ? unit_factor : byte_factor, out);
}

}  // namespace dpbench
