// What one rank saw while it drove a strategy: facts alone, no opinion. The judges read nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/conform/evidence/forwarding_backend.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// One collective that a step called. Tensors are kept only where the scenario captures them.
struct Collective {
  CollectiveOp op = CollectiveOp::allreduce;
  ReduceKind reduction = ReduceKind::UNUSED;
  int64_t bytes = 0;
  bool floating = true;
  std::vector<at::Tensor> input, output;

  bool reduces() const { return reduction != ReduceKind::UNUSED; }
  bool averages() const { return reduction == ReduceKind::AVG; }
  bool sums() const { return averages() || reduction == ReduceKind::SUM; }  // then maybe divides
};

struct StepEvidence {
  std::vector<at::Tensor> ids;  // of each micro-batch that this rank was given
  at::Tensor output, loss;
  NamedTensors gradients, parameters, buffers, state;  // as the strategy reports them after the step
  std::vector<Collective> collectives;
  std::string touched;   // which of its rows the step wrote to
  std::string laid_out;  // the first gradient that does not lie as torch lays out a parameter's .grad, and how it does
};

// forward() on some rows, and what it gave.
struct Evaluation {
  int64_t step = 0;  // after this one
  at::Tensor ids, output;
  int64_t collectives = 0;  // while it did so: it must not need the others
  NamedTensors buffers;     // afterwards
};

struct Evidence {
  int rank = 0;
  NamedTensors parameters, buffers, state;  // after construction
  std::vector<StepEvidence> steps;
  std::vector<Evaluation> evaluations;
  NamedTensors last_parameters, last_buffers, last_state;  // after finish()
  std::string error;                                       // what() of an exception that ended the drive early
  bool refused = false;      // ... and it was a UsageError: the strategy does not offer this
  bool interrupted = false;  // ... and other ranks may be left waiting: the group is of no more use
  bool echo = false;         // ... because another rank gave up or called something else: not the cause
};

// Content-addressed: tensors whose hash stands in `known` travel as that hash alone, so that ranks which agree with
// rank 0 send next to nothing.
using TensorPool = std::map<uint64_t, at::Tensor>;
uint64_t content_hash(const at::Tensor& tensor);
TensorPool pool_of(const Evidence& evidence);
std::string to_bytes(const Evidence& evidence, const std::vector<uint64_t>& known);
Evidence from_bytes(const std::string& bytes, const TensorPool& pool);

bool is_in(const std::vector<std::string>& names, const std::string& name);

}  // namespace dpbench
