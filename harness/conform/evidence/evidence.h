// The evidence that one rank collects while it drives a strategy. Judges use only this.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/conform/evidence/forwarding_backend.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// A collective called by a step. Tensors are kept only if the scenario captures them.
struct Collective {
  CollectiveOp op = CollectiveOp::allreduce;
  ReduceKind reduction = ReduceKind::UNUSED;
  int64_t bytes = 0;
  bool floating = true;
  std::vector<at::Tensor> input, output;

  bool reduces() const { return reduction != ReduceKind::UNUSED; }
  bool averages() const { return reduction == ReduceKind::AVG; }
  bool sums() const { return averages() || reduction == ReduceKind::SUM; }  // sum or mean
};

struct StepEvidence {
  std::vector<at::Tensor> ids;  // sample ids of each micro-batch of this rank
  at::Tensor output, loss;
  NamedTensors gradients, parameters, buffers, state;  // as the strategy reports them after the step
  std::vector<Collective> collectives;
  std::string modified_input;  // the first input tensor that the step modified
  std::string wrong_strides;   // the first gradient without the strides that torch gives a parameter's .grad
};

// A call of forward() and its result.
struct Evaluation {
  int64_t step = 0;  // the preceding step
  at::Tensor ids, output;
  int64_t collectives = 0;  // number of collectives called; must be 0, since one rank may evaluate alone
  NamedTensors buffers;     // after the call
};

struct Evidence {
  int rank = 0;
  NamedTensors parameters, buffers, state;  // after construction
  std::vector<StepEvidence> steps;
  std::vector<Evaluation> evaluations;
  NamedTensors last_parameters, last_buffers, last_state;  // after finish()
  std::string error;                                       // message of the exception that ended the scenario early
  bool refused = false;      // the error is a UsageError or Unavailable: the strategy does not support this
  bool interrupted = false;  // other ranks may still be waiting, so the group is unusable
  bool echo = false;         // the error is a consequence of another rank's failure
};

// Content-addressed serialization: a tensor with its hash in `known` is sent as the hash only, so ranks that agree with
// rank 0 send little data.
using TensorPool = std::map<uint64_t, at::Tensor>;
uint64_t content_hash(const at::Tensor& tensor);
TensorPool pool_of(const Evidence& evidence);
std::string to_bytes(const Evidence& evidence, const std::vector<uint64_t>& known);
Evidence from_bytes(const std::string& bytes, const TensorPool& pool);

bool is_in(const std::vector<std::string>& names, const std::string& name);

}  // namespace dpbench
