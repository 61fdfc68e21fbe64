// The evidence: what one rank records (tensors, collectives, errors) while it runs a strategy through a test scenario.
// The judges (functions that verify the results) read nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/conform/evidence/forwarding_backend.h"
#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// A collective called by a training step, or by an accessor such as Strategy::gradients() after the step. The input and
// output tensors are stored only for reductions in the last step of a scenario with Scenario::keep_reductions.
struct Collective {
  CollectiveOp op = CollectiveOp::allreduce;
  ReduceKind reduction = ReduceKind::UNUSED;
  int64_t bytes = 0;
  bool floating = true;
  std::vector<at::Tensor> input = {}, output = {};
  std::string axis = default_axis;  // mesh axis of the process group that ran the collective
  bool by_accessor = false;  // true if an accessor, e.g. Strategy::gradients(), called the collective after the step

  bool reduces() const { return reduction != ReduceKind::UNUSED; }
  bool averages() const { return reduction == ReduceKind::AVG; }
  // True if the collective computes a sum or a mean.
  bool sums() const { return averages() || reduction == ReduceKind::SUM; }
};

struct StepEvidence {
  std::vector<at::Tensor> ids = {};  // the sample ids of each micro-batch of this rank
  at::Tensor output = {}, loss = {};
  NamedTensors gradients = {}, parameters = {}, buffers = {},
               state = {};  // the training state that the strategy reports after the step
  std::vector<Collective> collectives = {};
  std::string modified_input = {};  // name of the first input tensor that the step modified; empty if none
  // Name of the first gradient whose strides differ from those that torch gives a parameter's .grad; empty if none.
  std::string wrong_strides = {};
};

// One call of the strategy's forward() for evaluation, and its result.
struct Evaluation {
  int64_t step = 0;  // number of the training step that precedes the evaluation
  at::Tensor ids, output;
  // Number of collectives that the evaluation called. Must be 0, since one rank may evaluate alone, unless the strategy
  // declares StrategyInfo::collective_evaluation.
  int64_t collectives = 0;
  NamedTensors buffers;  // the model's buffers after the evaluation
};

struct Evidence {
  int rank = 0;
  int64_t steps_before = 0;                 // steps that the strategy object took before the scenario's first one
  NamedTensors parameters, buffers, state;  // training state that the strategy reports before the scenario's first step
  std::vector<StepEvidence> steps;
  std::vector<Evaluation> evaluations;
  // training state that the strategy reports at the end of the scenario
  NamedTensors last_parameters, last_buffers, last_state;
  // Bytes of KeptTensors::parameters (the rank's shards), of the model's parameters and of the outputs of all-gathers
  // in flight, at the moment when their sum was largest. They are measured at every loss and collective of a step.
  int64_t stored_parameter_bytes = 0, live_parameter_bytes = 0, live_gather_bytes = 0;
  // Description of the first operation or collective with tensors whose distribution over ranks it cannot combine (a
  // wrong pair, see activation.h); empty if none.
  std::string wrong_type;
  int64_t typed = 0;  // number of inputs of collectives with a known distribution over ranks
  std::string error;  // message of the exception that ended the scenario early; empty if none
  // Refusal::none unless the error is a UsageError or Unavailable (the strategy does not support the scenario), or the
  // backend lacks an operation.
  Refusal refusal = Refusal::none;
  // True if other ranks may still be waiting in a collective, so the process group is unusable.
  bool interrupted = false;
  bool echo = false;  // true if the error of this rank is only a consequence of another rank's failure

  bool refused() const { return refusal != Refusal::none; }
};

using TensorPool = std::map<uint64_t, at::Tensor>;
// Functions that serialize evidence. `known`: sorted hashes of rank 0's tensors. A tensor with a hash in this list is
// sent as its hash only, so a rank with the same results as rank 0 sends little data.
uint64_t content_hash(const at::Tensor& tensor);
TensorPool pool_of(const Evidence& evidence);
std::string to_bytes(const Evidence& evidence, const std::vector<uint64_t>& known);
Evidence from_bytes(const std::string& bytes, const TensorPool& pool);

bool is_in(const std::vector<std::string>& names, const std::string& name);

}  // namespace dpbench
