// Converts image bytes to float32. Does not depend on torch.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

enum class PixelRange { unit, bytes };  // range of converted pixel values: [0, 1] for unit, [0, 255] for bytes

// Converts `count` bytes to float32. PixelRange::unit divides by 255 and rounds once, which gives the bits of
// torchvision's ToTensor.
using ConvertPixels = void (*)(const uint8_t* pixels, int64_t count, PixelRange range, float* out);
// Returns the functions for converting pixels that this processor supports, fastest first. All give the same bits.
const std::vector<ConvertPixels>& pixel_converters();
inline void convert_pixels(const uint8_t* pixels, int64_t count, PixelRange range, float* out) {
  pixel_converters()[0](pixels, count, range, out);
}

}  // namespace dpbench
