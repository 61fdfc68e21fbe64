// One entry of a pipeline schedule: a computation, transfer, reduction, unshard or reshard of one stage. Its text form
// uses the letters of torch.distributed.pipelining, as in 2F0, 2I0, 2W0, 2B0 and 2SEND_F0.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "workloads/base/names.h"

namespace dpbench::pipeline {

enum class Kind {
  forward,
  full_backward,    // computes the gradients of input and weights in one pass
  input_gradient,   // gradient of the stage's input; "B" in the zero-bubble papers
  weight_gradient,  // gradient of the stage's weights; "W" in the zero-bubble papers
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  reduce_gradients,  // sums a stage's gradients over the replicas of the pipeline
  reduce_tied,       // sums the gradients of parameters that several stages share
  unshard,
  reshard
};

inline constexpr int no_microbatch = -1;

struct Action {
  Kind kind = Kind::forward;
  int stage = 0;
  // Index of the micro-batch; not set for actions of a whole stage: reductions, unshard and reshard.
  int microbatch = no_microbatch;
  // True for a forward pass that runs together with the next action, a backward pass.
  bool overlaps_next = false;

  friend auto operator<=>(const Action&, const Action&) = default;
};

bool is_compute(Kind kind);
bool is_send(Kind kind);
bool is_receive(Kind kind);
// True for actions that belong to one micro-batch: computations and transfers.
bool has_microbatch(Kind kind);
// Returns true for full_backward and weight_gradient, the actions that complete the weight gradient of a micro-batch.
bool ends_weight_gradient(Kind kind);

std::string text_of(const Action& action);
// Returns the action's name in messages, such as "2F0 (stage 2, micro-batch 0)".
std::string described(const Action& action);

// Returns the action's name in a profiler's trace, such as "pipeline 12 2F0" in step 12. A transfer has two spans of
// its name: the call that starts it and the wait for its end.
std::string trace_name(int64_t step, const Action& action);
inline constexpr std::string_view trace_prefix = "pipeline ";

// Parses a text such as "2SEND_F0". Throws UsageError if the text is no action; the message starts with `where`.
Action parse_action(std::string_view text, const std::string& where);

}  // namespace dpbench::pipeline

namespace dpbench {

template <>
inline constexpr auto enum_names<pipeline::Kind> = std::to_array<std::string_view>(
    {"F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD", "REDUCE_TIED", "UNSHARD", "RESHARD"});

}  // namespace dpbench
