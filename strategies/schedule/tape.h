// A list of one rank's actions, to which the generators of pipeline schedules append. Most calls name only a stage, and
// take the stage's next micro-batch. So computations of one kind on one stage are in ascending order of micro-batches.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "strategies/schedule/action.h"

namespace dpbench::pipeline {

class Tape {
 public:
  // end: number of micro-batches that exist. A call that would take a later micro-batch is counted, but appends
  // nothing.
  explicit Tape(int end) : end_(end) {}

  void start_at(int stage, int microbatch) { first_[stage] = microbatch; }
  void forward(int stage) { record(Kind::forward, stage); }
  void backward(int stage) { record(Kind::full_backward, stage); }
  // Appends a forward pass that runs together with the backward pass that the next call appends.
  void overlapped_forward(int stage) {
    forward(stage);
    actions_.back().overlaps_next = true;
  }
  void input_gradient(int stage) { record(Kind::input_gradient, stage); }
  void weight_gradient(int stage) { record(Kind::weight_gradient, stage); }

  // Appends a computation of a given micro-batch, for generators that choose the micro-batch themselves.
  void record(Kind kind, int stage, int microbatch) {
    if (microbatch < end_) actions_.push_back({.kind = kind, .stage = stage, .microbatch = microbatch});
  }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  void record(Kind kind, int stage) {
    // A stage may have full backward passes and input gradients, so both share one counter of micro-batches.
    int& done = done_[{kind == Kind::full_backward ? Kind::input_gradient : kind, stage}];
    if (kind == Kind::full_backward) ++done_[{Kind::weight_gradient, stage}];
    record(kind, stage, first_[stage] + done++);
  }

  int end_;
  std::map<int, int> first_;
  std::map<std::pair<Kind, int>, int> done_;
  std::vector<Action> actions_;
};

}  // namespace dpbench::pipeline
