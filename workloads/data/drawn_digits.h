// Handwriting of the program's own: 28x28 digits made from (seed, index) alone, to stand in for MNIST.
#pragma once

#include <cstdint>
#include <span>

#include "workloads/data/image_set.h"

namespace dpbench {

// Every ten rows in a row hold each digit once, in an order of their own.
uint8_t drawn_label(uint64_t seed, int64_t index);

// Ink on a dark ground, as in MNIST: 0 is empty. Shift, size, slant, turn, pen, ink and noise differ from row to row.
void draw_digit(uint64_t seed, int64_t index, std::span<uint8_t> pixels);

}  // namespace dpbench
