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
  bool sequence = false;  // the option tp.sequence: activations between the divided layers are cut along the sequence
  int cp = 1;             // ranks of context parallelism with cp.kind=ring; each has seq / cp tokens of a sequence
};

// The kinds of blocks, in the order of the model.
enum class Part { embed, layer, norm, head };

// Returns the number of a block's parameters on a rank. A tied head has none, because it uses the embedding's.
int64_t parameters(const Shape& shape, Part part, const Cut& cut);

// Bytes of the activations of one block in one micro-batch. For the head, the loss is included.
struct Activations {
  // Bytes that the block keeps from its forward to its backward pass, without its parameters and its output. If the
  // next block keeps the output as its input, that block counts it.
  double kept = 0;
  double casts = 0;   // bfloat16 copies of float32 weights, which autocast keeps for the backward pass
  double output = 0;  // bytes of the block's output; for the head, of the logits
  // The most bytes in use at one moment of the block's forward pass (including its output) and of its backward pass
  // (including the output's gradient). Not included: the bytes in `kept` and `casts`, and gradients of parameters. For
  // the head, the logits are included.
  double forward = 0, backward = 0;
};

// Returns the bytes of a block's activations. rows: number of samples in the micro-batch.
Activations activations(const Shape& shape, Part part, const Cut& cut, Precision precision, double rows);

// The blocks of a pipeline stage: a contiguous range of the model's blocks. `head` stands for the head and the norm
// before it.
struct Stage {
  int64_t layers = 0;
  bool embed = true, head = true;
};

struct Step {
  double rows = 1;  // number of samples in a micro-batch
  int micro_batches = 1;
  int live = 1;           // number of micro-batches that are between their forward and backward pass at the same time
  int64_t recompute = 0;  // the flag --recompute
  // True if the caller keeps the output of the previous step during the next one. dpbench's worker processes do not.
  bool last_output = true;
};

// Bytes in use at the peak of a training step.
struct StepMemory {
  double parameters = 0, gradients = 0, state = 0;
  double activations = 0;  // tensors kept for a backward pass, and bfloat16 copies of weights
  double workspace = 0;    // temporary tensors, and the logits
  double total() const { return parameters + gradients + state + activations + workspace; }
};

StepMemory step_memory(const Shape& shape, const Stage& stage, const Cut& cut, Precision precision, const Step& step);
// Returns the peak memory of a rank that has all blocks of the model.
StepMemory step_memory(const Shape& shape, const Cut& cut, Precision precision, const Step& step);

}  // namespace dpbench::gpt
