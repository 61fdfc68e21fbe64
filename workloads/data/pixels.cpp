#include "workloads/data/pixels.h"

namespace dpbench {
namespace {

// The two factors in value = pixel * high + pixel * low. Their sum is 1/255 (or 1), split in two parts. The first
// product is exact, and the second is so small that its rounding does not matter. So the value has the same bits as
// pixel / 255, but needs no division.
struct PixelFactor {
  float high, low;
};
constexpr PixelFactor unit_factor{0x1.01p-8f, 0x1.010102p-24f}, byte_factor{1, 0};

// The loop that converts pixels. It is inlined into one function per instruction set, so that the compiler vectorises
// it for each of them.
[[gnu::always_inline]] inline void convert(const uint8_t* pixels, int64_t count, PixelRange range, float* out) {
  const PixelFactor factor = range == PixelRange::unit ? unit_factor : byte_factor;
  for (int64_t i = 0; i < count; ++i) {
    const auto pixel = static_cast<float>(static_cast<int32_t>(pixels[i]));
    out[i] = pixel * factor.high + pixel * factor.low;
  }
}

void convert_generic(const uint8_t* pixels, int64_t count, PixelRange range, float* out) {
  convert(pixels, count, range, out);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void convert_avx2(const uint8_t* pixels, int64_t count, PixelRange range, float* out) {
  convert(pixels, count, range, out);
}
[[gnu::target("avx512f,avx512bw,avx512vl")]] void convert_avx512(const uint8_t* pixels, int64_t count, PixelRange range,
                                                                 float* out) {
  convert(pixels, count, range, out);
}
#endif

std::vector<ConvertPixels> supported_converters() {
  std::vector<ConvertPixels> found;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    found.push_back(convert_avx512);
  if (__builtin_cpu_supports("avx2")) found.push_back(convert_avx2);
#endif
  found.push_back(convert_generic);
  return found;
}

}  // namespace

const std::vector<ConvertPixels>& pixel_converters() {
  static const std::vector<ConvertPixels> found = supported_converters();
  return found;
}

}  // namespace dpbench
