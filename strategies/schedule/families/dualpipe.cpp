// DualPipe (DeepSeek-V3, arXiv 2412.19437): the model's stages exist twice, and half of the micro-batches run through
// the ranks in each direction. dpbench only simulates this schedule.
#include <algorithm>
#include <deque>

#include "strategies/schedule/families/families.h"
#include "strategies/schedule/tape.h"

namespace dpbench::pipeline {
namespace {

// The list of actions of one rank of DualPipe. The rank has two stages, one per direction. The near stage belongs to
// the direction that starts at the nearer end of the pipeline, the far stage to the other.
class DualRank {
 public:
  DualRank(const Request& request, int rank) : tape_(request.microbatches) {
    const int ranks = request.ranks, half = request.microbatches / 2, mirrored = ranks - 1 - rank;
    const int down = rank, up = ranks + mirrored;
    tape_.start_at(up, half);
    near_ = rank < ranks / 2 ? down : up;
    far_ = rank < ranks / 2 ? up : down;
    depth_ = std::min(rank, mirrored);
    beyond_ = ranks / 2 - depth_ - 1;
    main_ = half - ranks + depth_ + 1;
  }

  std::vector<Action> actions() {
    warm_up();
    steady();
    cool_down();
    return tape_.take();
  }

 private:
  void input_gradient(int stage) {
    tape_.input_gradient(stage);
    late_.push_back(stage);
  }
  void oldest_weight_gradient() {
    tape_.weight_gradient(late_.front());
    late_.pop_front();
  }
  void backward(int stage, bool split) { split ? input_gradient(stage) : tape_.backward(stage); }

  void warm_up() {
    for (int i = 0; i < 2 * beyond_; ++i) tape_.forward(near_);
    for (int i = 0; i < depth_ + 1; ++i) {
      tape_.forward(near_);
      tape_.forward(far_);
    }
    for (int i = 0; i < beyond_; ++i) {
      input_gradient(far_);
      oldest_weight_gradient();
      tape_.forward(far_);
    }
  }

  void overlapped(int forward, int backward) {
    tape_.overlapped_forward(forward);
    tape_.backward(backward);
  }

  // Appends the overlapped pairs. The two ranks in the middle of the pipeline run their first forward and backward pass
  // one after the other: as an overlapped pair, each of the two ranks would wait for a tensor that the other computes
  // in the same pair.
  void steady() {
    for (int i = 0; i < main_; ++i) {
      if (i == 0 && beyond_ == 0) {
        tape_.forward(near_);
        tape_.backward(far_);
      } else {
        overlapped(near_, far_);
      }
      overlapped(far_, near_);
    }
    for (int i = 0; i < beyond_; ++i) {
      tape_.backward(far_);
      overlapped(far_, near_);
    }
  }

  // Appends the last backward passes. In the second half of the rounds they are split, and the weight gradients fill
  // the remaining idle time.
  void cool_down() {
    const int rounds = depth_ + 1;
    bool split = false;
    for (int i = 0; i < rounds; ++i) {
      const bool middle = i == rounds / 2;
      split = split || (middle && depth_ % 2 == 1);
      backward(far_, split);
      split = split || middle;
      backward(near_, split);
    }
    for (int i = 0; i < beyond_; ++i) {
      oldest_weight_gradient();
      input_gradient(near_);
    }
    while (!late_.empty()) oldest_weight_gradient();
  }

  Tape tape_;
  int near_ = 0, far_ = 0;
  int depth_ = 0;         // number of ranks between this rank and the end of the pipeline that is nearer to it
  int beyond_ = 0;        // number of ranks between this rank and the middle of the pipeline
  int main_ = 0;          // number of rounds in which the rank overlaps a forward and a backward pass of each direction
  std::deque<int> late_;  // stages with a pending weight gradient, oldest first
};

}  // namespace

Schedule make_dualpipe(const Request& request) {
  const int ranks = request.ranks;
  Schedule schedule{.microbatches = request.microbatches, .pipelines = 2, .rank_of = looped_placement(ranks, 1)};
  for (int stage = 0; stage < ranks; ++stage) {
    schedule.rank_of.push_back(ranks - 1 - stage);
    schedule.ties.push_back({stage, ranks + stage});
  }
  for (int rank = 0; rank < ranks; ++rank) schedule.ranks.push_back(DualRank(request, rank).actions());
  schedule.live_limits.assign(ranks, ranks + 1);
  return schedule;
}

}  // namespace dpbench::pipeline
