// Synthetic 28x28 handwritten digits, used instead of MNIST by default. Each is a pure function of (seed, index).
#pragma once

#include <cstdint>
#include <span>

#include "workloads/data/image_set.h"

namespace dpbench {

// Returns the label of a sample. Each group of ten consecutive samples contains every digit once, in random order.
uint8_t drawn_label(uint64_t seed, int64_t index);

// Draws the image of a sample into `pixels`; 0 is background, as in MNIST. Shift, size, slant, turn, pen, ink and noise
// vary per sample.
void draw_digit(uint64_t seed, int64_t index, std::span<uint8_t> pixels);

}  // namespace dpbench
