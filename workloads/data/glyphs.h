// The strokes of the ten digits, as a pen would draw them in a box of 100 x 100 with y downwards.
#pragma once

#include <cstdint>
#include <span>

namespace dpbench {

struct GlyphPoint {
  int8_t x, y;
  bool lift = false;  // the pen comes down here instead of drawing from the point before
};

// Two hands write each digit a little differently: variant 0 or 1.
std::span<const GlyphPoint> glyph(int digit, int variant);

}  // namespace dpbench
