// Counts the work of a rank in one block of a gpt model: floating-point operations, and the bytes that memory-bound
// operations move.
#pragma once

#include "workloads/gpt/footprint.h"
#include "workloads/gpt/shape.h"

namespace dpbench::forecast {

struct Pass {
  double flop = 0;   // floating-point operations of matrix products and attention
  double bytes = 0;  // bytes read and written by all other operations: embedding, norms, activation functions, ...

  Pass& operator+=(const Pass& other) {
    flop += other.flop, bytes += other.bytes;
    return *this;
  }
};

struct BlockWork {
  Pass forward = {}, backward = {};
};

// Returns the work of one micro-batch of `rows` samples. The head's work includes the loss. Attention counts masked
// scores too, as the workload's formula for the FLOP of a sample does.
BlockWork work_of(const gpt::Shape& shape, gpt::Part part, const gpt::Cut& cut, gpt::Precision precision, double rows);

// Returns the work of the whole model on one device: the sum over all blocks.
BlockWork work_of_model(const gpt::Shape& shape, gpt::Precision precision, double rows);

// Returns the bytes of one stored parameter.
double stored_bytes(gpt::Precision precision);

}  // namespace dpbench::forecast
