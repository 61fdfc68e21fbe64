// A pipeline schedule: for each rank the ordered list of actions of one training step. Generators and files provide
// schedules, the verifier checks them, and the simulator times them.
#pragma once

#include <string>
#include <vector>

#include "strategies/schedule/action.h"

namespace dpbench::pipeline {

struct Schedule {
  std::string name = {};
  int microbatches = 1;
  // Number of pipelines. 1 is the usual case. With 2, each of the model's S stages exists twice: stages 0 to S-1
  // process the first half of the micro-batches, and stages S to 2S-1, which are their copies, the second half.
  int pipelines = 1;
  std::vector<int> rank_of = {};            // rank of each stage
  std::vector<std::vector<int>> ties = {};  // groups of stages that share parameters
  // For each rank, the highest number of live activations that the schedule promises; empty: no limit. An activation is
  // live from its forward pass to its weight gradient.
  std::vector<int> live_limits = {};
  int receive_slots = 0;  // number of receive buffers of each channel; 0 means one for each micro-batch
  std::vector<std::vector<Action>> ranks = {};

  int stages() const { return static_cast<int>(rank_of.size()); }
  int stages_per_pipeline() const { return stages() / pipelines; }
  int world() const { return static_cast<int>(ranks.size()); }
  bool is_first(int stage) const { return stage % stages_per_pipeline() == 0; }
  bool is_last(int stage) const { return (stage + 1) % stages_per_pipeline() == 0; }
  // The micro-batches that run through a stage are first_microbatch(stage) .. end_microbatch(stage) - 1.
  int first_microbatch(int stage) const { return stage / stages_per_pipeline() * (microbatches / pipelines); }
  int end_microbatch(int stage) const { return first_microbatch(stage) + microbatches / pipelines; }
  // True if the activation of `stage` is sent through a channel: there is a next stage, and it lies on another rank.
  bool sends_activation(int stage) const { return !is_last(stage) && rank_of[stage] != rank_of[stage + 1]; }
  bool sends_gradient(int stage) const { return !is_first(stage) && rank_of[stage] != rank_of[stage - 1]; }
};

// Returns the rank of each stage in an interleaved schedule: chunk c (the c-th stage) of rank r is stage c * ranks + r.
std::vector<int> looped_placement(int ranks, int chunks);
// Returns the rank of each stage in a V-shaped schedule: stages go from the first rank to the last and back, so rank r
// has the stages r and 2 * ranks - 1 - r.
std::vector<int> vee_placement(int ranks);

// True if the schedule contains sends or receives.
bool has_transfers(const Schedule& schedule);
// True if backward passes are split into input gradients and weight gradients.
bool splits_backward(const Schedule& schedule);
// Returns the schedule with its computations alone.
Schedule without_transfers(const Schedule& schedule);

// One direction of the boundary between two stages. Sends and receives of a channel happen in the same order.
struct Channel {
  Kind send = Kind::send_activation;
  int from = 0, to = 0;  // the sending stage and the receiving stage

  friend auto operator<=>(const Channel&, const Channel&) = default;
};

// Returns the channel of a send or a receive.
Channel channel_of(const Action& transfer);
// Returns the receive that belongs to a send, or the send that belongs to a receive.
Action counterpart(const Action& transfer);

// Returns the channel's name in messages, such as "activations from stage 0 to stage 1".
std::string described(const Channel& channel);

}  // namespace dpbench::pipeline
