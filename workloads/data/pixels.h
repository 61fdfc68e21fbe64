// Bytes of an image as the floating point numbers that a model reads. Knows no torch.
#pragma once

#include <cstdint>

namespace dpbench {

enum class PixelRange { unit, bytes };  // 0 to 1, 0 to 255

// Each of `count` bytes, for `unit` divided by 255 and rounded once: the very bits of torchvision's ToTensor.
void convert_pixels(const uint8_t* pixels, int64_t count, PixelRange range, float* out);

}  // namespace dpbench
