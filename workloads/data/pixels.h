// Bytes of an image as the floating point numbers that a model reads. Knows no torch.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

enum class PixelRange { unit, bytes };  // 0 to 1, 0 to 255

// Each of `count` bytes, for `unit` divided by 255 and rounded once: the very bits of torchvision's ToTensor.
using ConvertPixels = void (*)(const uint8_t* pixels, int64_t count, PixelRange range, float* out);
// All that this processor can run give the same bits; the first is the fastest.
const std::vector<ConvertPixels>& pixel_converters();
inline void convert_pixels(const uint8_t* pixels, int64_t count, PixelRange range, float* out) {
  pixel_converters()[0](pixels, count, range, out);
}

}  // namespace dpbench
