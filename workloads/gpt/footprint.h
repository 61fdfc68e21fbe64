// Closed formulas for the parameters and the memory of a rank that trains a gpt model. They hold for LibTorch 2.11's
// CPU kernels; footprint_test.cpp compares them with real allocations. They throw UsageError for models with experts.
#pragma once

#include <cstdint>

#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

enum class Precision { float32, float64, bfloat16 };  // bfloat16: autocast over float32 parameters

// Numbers of ranks among which a model is divided. The formulas describe the first rank, which has the largest pieces.
struct Cut {
  int tp = 1;             // ranks of tensor parallelism
  bool sequence = false;  // tp.sequence: activations between the divided layers are cut along the sequence
  int cp = 1;             // ranks of context parallelism (cp.kind=ring); each has seq / cp tokens
};

// The kinds of blocks, in the order of the model.
enum class Part { embed, layer, norm, head };

// Returns the number of a block's parameters on a rank. A tied head has none, because it uses the embedding's.
int64_t parameters(const Shape& shape, Part part, const Cut& cut);

// Bytes of a block's activations for one micro-batch. The head includes the loss.
struct Activations {
  // Bytes kept from the forward to the backward pass, without parameters and the block's output. An output that the
  // next block keeps as its input counts for that block.
  double kept = 0;
  double casts = 0;   // bfloat16 copies of weights, kept for the backward pass
  double output = 0;  // the block's output; for the head, the logits
  // The most bytes in use at a time, without the bytes in `kept` and `casts`: during the forward pass, including the
  // output, and during the backward pass, including the output's gradient. Gradients of parameters are not included.
  // The head includes its logits.
  double forward = 0, backward = 0;
};

// rows: number of rows (samples) in the micro-batch.
Activations activations(const Shape& shape, Part part, const Cut& cut, Precision precision, double rows);

// A contiguous range of a model's blocks. `head` includes the norm before the head.
struct Stage {
  int64_t layers = 0;
  bool embed = true, head = true;
};

struct Step {
  double rows = 1;  // rows (samples) per micro-batch
  int micro_batches = 1;
  int live = 1;           // micro-batches between their forward and backward pass at the same time
  int64_t recompute = 0;  // the flag --recompute
  // True if the caller keeps the output of the previous step during the step. The worker does not.
  bool last_output = true;
};

// Bytes in use at the peak of a training step.
struct StepMemory {
  double parameters = 0, gradients = 0, state = 0;
  double activations = 0;  // tensors kept for a backward pass, including cast weights
  double workspace = 0;    // temporary tensors and logits
  double total() const { return parameters + gradients + state + activations + workspace; }
};

StepMemory step_memory(const Shape& shape, const Stage& stage, const Cut& cut, Precision precision, const Step& step);
// Returns the peak memory of a rank that has all blocks of the model.
StepMemory step_memory(const Shape& shape, const Cut& cut, Precision precision, const Step& step);

}  // namespace dpbench::gpt
