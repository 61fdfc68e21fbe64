// What a rank computes in one block of a gpt: floating-point operations, and bytes that its other operations move.
#pragma once

#include "workloads/gpt/footprint.h"
#include "workloads/gpt/shape.h"

namespace dpbench::forecast {

struct Pass {
  double flop = 0;   // of matrix products and attention
  double bytes = 0;  // read and written by norms, activations, sums and the loss

  Pass& operator+=(const Pass& other) {
    flop += other.flop, bytes += other.bytes;
    return *this;
  }
};

struct BlockWork {
  Pass forward = {}, backward = {};
};

// Returns the work of one micro-batch of `rows` rows. The head's work includes the loss. Attention counts all scores,
// as Shape::flop_per_row() does.
BlockWork work_of(const gpt::Shape& shape, gpt::Part part, const gpt::Cut& cut, gpt::Precision precision, double rows);

// Returns the sum over all blocks, undivided.
BlockWork work_of_model(const gpt::Shape& shape, gpt::Precision precision, double rows);

// Returns the size of an element of a parameter.
double stored_bytes(gpt::Precision precision);

}  // namespace dpbench::forecast
